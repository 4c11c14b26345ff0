// Common parts of the file readers: numbers in either byte order, sizes that are checked before memory is
// allocated, and one form of error.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/graph/shape.h"

namespace athanor {

/// The hint for content that contradicts itself.
inline constexpr const char* corrupt_hint = "The file is truncated or corrupt: fetch or write it again";

/// Error(format) "WHAT (at FILE, PLACE). HINT"; `place` is a byte offset or a field.
Error format_error(std::string what, std::string_view file, std::string_view place,
                   std::string hint = corrupt_hint);

/// "byte 12"
std::string byte_place(uint64_t offset);

/// A number from `from`, which has at least sizeof(T) bytes, in the byte order `order`.
template <class T>
T load(const std::byte* from, std::endian order) {
  std::byte raw[sizeof(T)];
  std::copy_n(from, sizeof(T), raw);
  if (order != std::endian::native) std::reverse(raw, raw + sizeof(T));
  T value;
  std::memcpy(&value, raw, sizeof(T));
  return value;
}

/// Converts elements of `width` bytes from byte order `order` to this machine's, in place.
void to_native(std::span<std::byte> elements, size_t width, std::endian order);

/// Replaces every byte that is not 0 by 1: a C++ bool may have no other value.
void to_booleans(std::span<std::byte> elements);

/// `extents` from a file as a Shape. An impossible rank or size is an Error(format).
Shape shape_from_file(const Ints& extents, std::string_view file, std::string_view place);

/// Throws Error(format) unless a `shape` with elements of `width` bytes takes exactly `available` bytes.
void check_payload(const Shape& shape, size_t width, uint64_t available, std::string_view file,
                   std::string_view place);

}  // namespace athanor
