#include "athanor/base/os/terminal.h"

#if __has_include(<sys/ioctl.h>)
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace athanor::os {

std::optional<Terminal> terminal_of_stdout() {
#if __has_include(<sys/ioctl.h>)
  if (isatty(STDOUT_FILENO) == 0) return std::nullopt;
  winsize size{};
  return Terminal{ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0};
#else
  return std::nullopt;
#endif
}

bool stderr_is_terminal() {
#if __has_include(<sys/ioctl.h>)
  return isatty(STDERR_FILENO) != 0;
#else
  return false;
#endif
}

}  // namespace athanor::os
