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

/// The character that begins at byte `at`, which is within the text. A byte that begins none (of an overlong
/// form, of a surrogate or above U+10FFFF too) is one by itself, not valid.
Utf8Character utf8_at(std::string_view text, size_t at);

void append_utf8(char32_t character, std::string& text);

/// The text with U+FFFD for each byte that is not UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace athanor
