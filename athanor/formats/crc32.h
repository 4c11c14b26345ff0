// CRC-32 (that of gzip and PNG, by zlib): finds every flipped bit, all damage within 32 successive bits, and
// other damage except for one case in four thousand million. It protects against damage, not forgery.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor {

/// The checksum of the parts, one after the other.
uint32_t crc32_of(std::initializer_list<Bytes> parts);

/// "0a1b2c3d", and back; nullopt for anything else.
std::string crc32_text(uint32_t crc);
std::optional<uint32_t> crc32_from_text(std::string_view text);

}  // namespace athanor
