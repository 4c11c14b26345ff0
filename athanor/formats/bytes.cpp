#include "athanor/formats/bytes.h"

#include <fmt/format.h>

#include <utility>

namespace athanor {

Error format_error(std::string what, std::string_view file, std::string_view place, std::string hint) {
  return {ErrorCode::format, std::move(what), fmt::format("{}, {}", file, place), std::move(hint)};
}

std::string byte_place(uint64_t offset) { return fmt::format("byte {}", offset); }

void to_native(std::span<std::byte> elements, size_t width, std::endian order) {
  if (width == 1 || order == std::endian::native) return;
  for (size_t i = 0; i + width <= elements.size(); i += width)
    std::reverse(elements.data() + i, elements.data() + i + width);
}

void to_booleans(std::span<std::byte> elements) {
  for (std::byte& element : elements) element = element == std::byte{0} ? std::byte{0} : std::byte{1};
}

Shape shape_from_file(const Ints& extents, std::string_view file, std::string_view place) {
  try {
    return {extents};
  } catch (const Error& error) {
    throw format_error(error.problem(), file, place, error.hint().empty() ? corrupt_hint : error.hint());
  }
}

void check_payload(const Shape& shape, size_t width, uint64_t available, std::string_view file,
                   std::string_view place) {
  const auto elements = static_cast<uint64_t>(shape.size());
  // Compare by division, because the product may not fit into 64 bits.
  if (available % width == 0 && available / width == elements) return;
  throw format_error(
      fmt::format("{} elements of {} bytes each are declared (shape {}) but {} bytes are there", elements,
                  width, to_string(shape), available),
      file, place);
}

}  // namespace athanor
