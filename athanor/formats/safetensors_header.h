// The JSON header of a safetensors file, to and from text; used only by safetensors.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/formats/safetensors.h"

namespace athanor {

/// The bytes of the length field that every file starts with.
constexpr uint64_t safetensors_length_bytes = 8;

/// The N in the length field `field`, checked against the size of the file and the specification's limit.
uint64_t parse_safetensors_length(Bytes field, uint64_t file_size, const std::string& name);

/// The header in `text` (the bytes after the length field), checked against its checksum, if it has one, and
/// the size of the file.
SafeTensorsHeader parse_safetensors_header(Bytes field, std::string_view text, uint64_t file_size,
                                           const std::string& name);

/// The hint for content that does not match its checksum.
inline constexpr const char* safetensors_damage_hint =
    "Take another copy. If another program has changed the file on purpose, let it drop the metadata "
    "'athanor.crc32.*'";

/// A tensor's name and array, without a copy.
using NamedArray = std::pair<std::string_view, const HostArray*>;

/// The length field and the header for `tensors`, whose elements follow in that order.
std::string format_safetensors_header(std::span<const NamedArray> tensors,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace athanor
