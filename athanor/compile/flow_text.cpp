#include "athanor/compile/flow_text.h"

#include <algorithm>

#include "athanor/base/text.h"

namespace athanor {
namespace {

// How many characters of `text` go into a line: up to the last position where it may be broken.
size_t line_length(std::string_view text, size_t columns) {
  if (text.size() <= columns) return text.size();
  if (text[columns] == ' ') return columns;
  const size_t at = text.substr(0, columns).find_last_of(" +,/");
  return at == std::string_view::npos || at == 0 ? columns : at + 1;
}

}  // namespace

std::vector<std::string> broken(std::string_view text, size_t columns) {
  columns = std::max<size_t>(columns, 1);
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t length = line_length(text, columns);
    lines.push_back(text.substr(0, length).find_last_not_of(' ') == std::string_view::npos
                        ? std::string()
                        : std::string(text.substr(0, text.substr(0, length).find_last_not_of(' ') + 1)));
    text.remove_prefix(length);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::string flowed(const std::vector<std::string>& pieces, size_t columns, size_t indent) {
  const std::string margin(indent, ' '), gap(3, ' ');
  const size_t room = columns > indent ? columns - indent : 1;
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    if (!lines.empty() && lines.back().size() + gap.size() + piece.size() <= room) {
      lines.back() += gap + piece;
      continue;
    }
    const std::vector<std::string> parts = broken(piece, room);
    lines.insert(lines.end(), parts.begin(), parts.end());
  }
  std::string text;
  for (const std::string& line : lines) text += margin + line + "\n";
  return text;
}

std::string wrapped_lines(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> parts = broken(line, columns);
    lines.insert(lines.end(), parts.begin(), parts.end());
  }
  return join(lines, "\n");
}

}  // namespace athanor
