#include "athanor/base/os/threads.h"

#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#endif

namespace athanor::os {

void yield_to_others() {
#ifdef __linux__
  constexpr int nicest = 19;  // on Linux each thread has its own priority
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), nicest);
#endif
}

int current_core() {
#ifdef __linux__
  return ::sched_getcpu();
#else
  return -1;
#endif
}

bool stay_off_cores([[maybe_unused]] const std::vector<int>& cores) {
#ifdef __linux__
  thread_local cpu_set_t allowed;
  thread_local const bool known = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  if (!known) return false;
  cpu_set_t left = allowed;
  for (const int core : cores)
    if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(core, &left);
  return CPU_COUNT(&left) > 0 && ::sched_setaffinity(0, sizeof(left), &left) == 0;
#else
  return false;
#endif
}

double thread_seconds() {
#ifdef __linux__
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
#else
  return 0;
#endif
}

}  // namespace athanor::os
