#include "athanor/cli/terminal.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "athanor/base/os/terminal.h"

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

// The value of COLUMNS, if it is a number above 0.
std::optional<int> columns_asked() {
  const std::string_view text = environment("COLUMNS");
  int columns = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), columns);
  const bool whole = failed == std::errc() && end == text.data() + text.size() && columns > 0;
  return whole ? std::optional(columns) : std::nullopt;
}

}  // namespace

int report_columns() {
  constexpr int without_terminal = 120;
  const Screen screen = screen_of_stdout();
  return screen.interactive || columns_asked() ? screen.columns : without_terminal;
}

bool is_dumb_terminal() { return environment("TERM") == "dumb"; }

Screen screen_of_stdout() {
  Screen screen;
  if (const auto terminal = os::terminal_of_stdout(); terminal && !is_dumb_terminal()) {
    screen.interactive = true;
    if (terminal->columns > 0) screen.columns = terminal->columns;
  }
  if (const auto asked = columns_asked()) screen.columns = *asked;
  screen.unicode = locale_is_utf8();
  screen.color = screen.interactive && environment("NO_COLOR").empty();
  return screen;
}

}  // namespace athanor::cli
