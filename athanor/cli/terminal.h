// What standard output can display.
#pragma once
#include "athanor/train/progress.h"

namespace athanor::cli {

/// Standard output as it is now: a terminal or not, how wide (COLUMNS, or what the terminal says), whether it
/// shows Unicode (by the locale) and colours (unless NO_COLOR is set, see no-color.org).
Screen screen_of_stdout();

/// The width of reports in columns: that of COLUMNS or the terminal; in a file or a pipe, that of most
/// windows.
int report_columns();

/// Whether TERM says that the terminal cannot overwrite a line.
bool is_dumb_terminal();

}  // namespace athanor::cli
