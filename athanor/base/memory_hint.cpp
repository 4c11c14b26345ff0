#include "athanor/base/memory_hint.h"

#include <fmt/format.h>

#include "athanor/base/os/limits.h"
#include "athanor/base/text.h"

namespace athanor {

std::string memory_hint(std::string otherwise, bool of_the_host) {
  if (const auto limit = os::address_space_limit(); limit && of_the_host)
    return fmt::format("The process may take at most {}: raise that (see 'ulimit -v'), or {}",
                       format_bytes(*limit), otherwise);
  if (!otherwise.empty() && otherwise[0] >= 'a' && otherwise[0] <= 'z')
    otherwise[0] = static_cast<char>(otherwise[0] - 'a' + 'A');
  return otherwise;
}

Error no_thread_error(const std::string& thread) {
  return {ErrorCode::out_of_memory,
          thread + " could not be started",
          {},
          memory_hint("stop other programs, or raise the limit of processes (see 'ulimit -u')")};
}

}  // namespace athanor
