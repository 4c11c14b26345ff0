// UTF-8 (RFC 3629).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace athanor {

struct Utf8Character {
  char32_t value = 0xFFFD;  ///< U+FFFD, the replacement character, for bytes that are not UTF-8
  size_t bytes = 1;
  bool valid = false;
};

/// The character that begins at byte `at`, which must lie in the text. Overlong forms, surrogates and values
/// above U+10FFFF are not valid. If no valid character begins there, the result is one byte that is not
/// valid.
Utf8Character utf8_at(std::string_view text, size_t at);

void append_utf8(char32_t character, std::string& text);

/// The text with U+FFFD for each byte that is not UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace athanor
