#include "athanor/base/utf8.h"

namespace athanor {

Utf8Character utf8_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1, true};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 0;
  if (length == 0 || length > text.size() - at) return {};
  char32_t value = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return {};
    value = value << 6 | (byte(at + i) & 0x3FU);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (first >= 0xF8 || value < least[length] || value > 0x10FFFF || surrogate) return {};
  return {value, length, true};
}

void append_utf8(char32_t character, std::string& text) {
  const auto more = [&](int shift) { text += static_cast<char>(0x80U | (character >> shift & 0x3FU)); };
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xC0U | character >> 6), more(0);
  } else if (character < 0x10000) {
    text += static_cast<char>(0xE0U | character >> 12), more(6), more(0);
  } else {
    text += static_cast<char>(0xF0U | character >> 18), more(12), more(6), more(0);
  }
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character found = utf8_at(text, at);
    append_utf8(found.value, result);
    at += found.bytes;
  }
  return result;
}

}  // namespace athanor
