// Standard output, when it is a terminal.
#pragma once
#include <optional>

namespace athanor::os {

struct Terminal {
  int columns = 0;  // 0: it does not say
};

/// The terminal that standard output goes to; none when it goes elsewhere, and where this is not known.
std::optional<Terminal> terminal_of_stdout();

}  // namespace athanor::os
