#include "athanor/base/wrap.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace athanor {
namespace {

// The size of the UTF-8 character, or of the escape sequence for colour, at the start: in bytes and columns.
std::pair<size_t, int> character(std::string_view text) {
  if (text.starts_with("\x1b[")) return {std::min(text.find('m'), text.size() - 1) + 1, 0};
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // From U+1100 on, the characters of Chinese are wide; accents and arrows below U+2E80 are not.
  const bool wide =
      bytes == 4 ||
      (bytes == 3 &&
       (first >= 0xE3 || (first == 0xE2 && static_cast<uint8_t>(text.size() > 1 ? text[1] : 0) >= 0xBA)));
  return {std::min(bytes, text.size()), wide ? 2 : 1};
}

}  // namespace

int text_columns(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const auto [bytes, wide] = character(text);
    columns += wide;
    text.remove_prefix(bytes);
  }
  return columns;
}

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string out, word;
  int used = 0, word_width = 0;
  const std::string line_break = "\n" + std::string(static_cast<size_t>(std::max(0, indent)), ' ');
  bool space = false;
  const auto place = [&] {
    if (word.empty()) return;
    if (used > 0 && used + (space ? 1 : 0) + word_width > std::max(columns, 20)) {
      out += line_break;
      used = 0;
    } else if (space && used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += word_width;
    word.clear();
    word_width = 0;
    space = false;
  };
  while (!text.empty()) {
    const auto [bytes, wide] = character(text);
    const std::string_view one = text.substr(0, bytes);
    text.remove_prefix(bytes);
    if (one == " " || one == "\n") {
      place();
      space = true;
      continue;
    }
    // A line must not begin with a Chinese comma or full stop.
    const bool clings =
        one == "，" || one == "。" || one == "；" || one == "：" || one == "、" || one == "）";
    if (wide == 2 && !clings) place();
    word += one;
    word_width += wide;
    if (wide == 2 && !text.empty() && character(text).second == 1) place();
  }
  place();
  return out;
}

}  // namespace athanor
