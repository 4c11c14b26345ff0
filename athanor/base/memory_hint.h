// What is advised when there is not enough memory.
#pragma once
#include <string>

namespace athanor {

/// "The process may take at most 97.7 MiB: raise that (ulimit -v), or ..." where there is such a limit, else
/// `otherwise` with a capital letter.
std::string memory_hint(std::string otherwise);

}  // namespace athanor
