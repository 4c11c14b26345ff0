// Hints for errors about missing memory.
#pragma once
#include <string>

#include "athanor/base/error.h"

namespace athanor {

/// "The process may take at most 97.7 MiB: raise that (see 'ulimit -v'), or OTHERWISE" if there is such a
/// limit, else `otherwise` with a capital letter. The limit applies only to memory of the host.
std::string memory_hint(std::string otherwise, bool of_the_host = true);

/// The error for a thread that the system refused to start. `thread` names it: "a thread".
Error no_thread_error(const std::string& thread);

}  // namespace athanor
