// Where output goes: a terminal or elsewhere.
#pragma once
#include <optional>

namespace athanor::os {

struct Terminal {
  int columns = 0;  // 0: it does not say
};

/// The terminal that standard output goes to; none when it goes elsewhere, and where this is not known.
std::optional<Terminal> terminal_of_stdout();

bool stderr_is_terminal();

}  // namespace athanor::os
