#include "athanor/formats/crc32.h"

#include <fmt/format.h>
#include <zlib.h>

#include <charconv>

namespace athanor {

uint32_t crc32_of(std::initializer_list<Bytes> parts) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (const Bytes part : parts)
    if (!part.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  return static_cast<uint32_t>(crc);
}

std::string crc32_text(uint32_t crc) { return fmt::format("{:08x}", crc); }

std::optional<uint32_t> crc32_from_text(std::string_view text) {
  uint32_t crc = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return crc;
}

}  // namespace athanor
