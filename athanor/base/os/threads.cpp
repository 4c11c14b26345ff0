#include "athanor/base/os/threads.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace athanor::os {

void yield_to_others() {
#ifdef __linux__
  constexpr int nicest = 19;  // on Linux each thread has its own priority
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), nicest);
#endif
}

}  // namespace athanor::os
