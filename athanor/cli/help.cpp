#include "athanor/cli/help.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "athanor/base/text.h"
#include "athanor/base/wrap.h"

namespace athanor::cli {
namespace {

/// Where a line's description begins: after two spaces, or after the names of an option.
size_t description_at(std::string_view line, size_t first_column) {
  const size_t text = line.find_first_not_of(' ');
  if (text == 0 || text == std::string_view::npos) return 0;
  if (text >= first_column) return text;
  const size_t gap = line.find("  ", text);
  return gap == std::string_view::npos ? text + 2 : std::min(line.find_first_not_of(' ', gap), line.size());
}

std::string wrapped_line(const std::string& line, size_t columns, size_t first_column) {
  const size_t at = description_at(line, first_column);
  return line.substr(0, at) + wrapped(std::string_view(line).substr(at),
                                      static_cast<int>(columns - std::min(columns, at)),
                                      static_cast<int>(at));
}

}  // namespace

WrappedHelp::WrappedHelp(int columns) : columns_(columns) {
  column_width(static_cast<size_t>(std::clamp(columns * 2 / 5, 16, 32)));
}

std::string WrappedHelp::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::vector<std::string> lines = split(Formatter::make_help(app, std::move(name), mode), '\n');
  for (std::string& line : lines)
    line = wrapped_line(line, static_cast<size_t>(columns_), get_column_width());
  return join(lines, "\n");
}

// Arguments without a name are shown without their type: the usage already shows whether they are required.
std::string WrappedHelp::make_option_opts(const CLI::Option* option) const {
  const bool bare = option->get_positional() && !option->nonpositional() && option->get_option_text().empty();
  return bare ? std::string() : Formatter::make_option_opts(option);
}

}  // namespace athanor::cli
