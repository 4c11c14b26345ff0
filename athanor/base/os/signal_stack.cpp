#include "athanor/base/os/signal_stack.h"

#ifndef _WIN32
#include <csignal>
#endif

namespace athanor::os {

void use_signal_stack() {
#ifndef _WIN32
  stack_t current{};
  if (sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;
  // Registers of AVX-512 and AMX take 12 KB.
  static thread_local char stack[1 << 16];
  stack_t own{};
  own.ss_sp = stack;
  own.ss_size = sizeof(stack);
  sigaltstack(&own, nullptr);
#endif
}

}  // namespace athanor::os
