#include "athanor/base/base64.h"

#include <cstdint>
#include <string_view>

namespace athanor {

std::string to_base64(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j)
      word = word << 8 | (i + j < bytes.size() ? static_cast<uint32_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : digits[word >> (18 - 6 * j) & 63];
  }
  return text;
}

}  // namespace athanor
