// Whether output goes to a terminal.
#pragma once
#include <optional>

namespace athanor::os {

struct Terminal {
  int columns = 0;  // 0: unknown
};

/// The terminal that standard output goes to; none if it goes elsewhere, or if this is unknown.
std::optional<Terminal> terminal_of_stdout();

bool stderr_is_terminal();

}  // namespace athanor::os
