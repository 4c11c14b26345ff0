// The hint when there is not enough memory.
#pragma once
#include <string>

#include "athanor/base/error.h"

namespace athanor {

/// "The process may take at most 97.7 MiB: raise that (ulimit -v), or ..." where there is such a limit, else
/// `otherwise` with a capital letter. The limit is not named for memory of another device.
std::string memory_hint(std::string otherwise, bool of_the_host = true);

/// That the system refused to start `thread` ("a thread").
Error no_thread_error(const std::string& thread);

}  // namespace athanor
