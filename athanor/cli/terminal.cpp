#include "athanor/cli/terminal.h"

#include <cstdlib>
#include <string_view>

#if __has_include(<unistd.h>)
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace athanor::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const auto locale = environment(name); !locale.empty())
      return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
  return false;
}

}  // namespace

Screen screen_of_stdout() {
  Screen screen;
#if __has_include(<unistd.h>)
  screen.interactive = isatty(STDOUT_FILENO) != 0 && environment("TERM") != "dumb";
  winsize size{};
  if (screen.interactive && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    screen.columns = size.ws_col;
#endif
  screen.unicode = locale_is_utf8();
  screen.color = screen.interactive && environment("NO_COLOR").empty();
  return screen;
}

}  // namespace athanor::cli
