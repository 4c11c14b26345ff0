#ifndef _WIN32
#include <fcntl.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <unistd.h>

#include <csignal>

#include "athanor/base/os/begin_child.h"
#include "athanor/base/os/interrupt.h"

namespace athanor::os {

void begin_child(int parent, int input, int output, int errors) {
  setpgid(0, 0);  // so that its own children end with it
#ifdef __linux__
  // Ctrl-C does not reach this process group, so the child has to end with its parent.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != parent) _exit(1);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGABRT, SIGSEGV, SIGPIPE}) std::signal(signal, SIG_DFL);
  const int nothing = open("/dev/null", O_RDWR);
  forget_interrupt_scopes();
  const auto use = [nothing](int file, int as) { dup2(file < 0 ? nothing : file, as); };
  use(errors, STDERR_FILENO);
  use(input, STDIN_FILENO);
  use(output, STDOUT_FILENO);
}

}  // namespace athanor::os
#endif
