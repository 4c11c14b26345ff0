#include "athanor/formats/tensorboard.h"

#include <array>
#include <bit>
#include <cstring>

namespace athanor {
namespace {

constexpr uint32_t castagnoli = 0x82F63B78;  // bits reversed

constexpr std::array<uint32_t, 256> make_crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t word = i;
    for (int bit = 0; bit < 8; ++bit) word = (word >> 1) ^ ((word & 1) != 0 ? castagnoli : 0);
    table[i] = word;
  }
  return table;
}

/// Masked, so that the checksum of data that holds a checksum is no special case (TensorFlow's crc32c.h).
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8; }

template <class T>
std::string little_endian(T value) {
  std::string text;
  for (size_t i = 0; i < sizeof(T); ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

// Fields of protocol buffers.
enum class Wire : uint32_t { varint = 0, eight_bytes = 1, length = 2, four_bytes = 5 };

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7F) | 0x80);
  return text + static_cast<char>(value);
}
std::string field_key(uint32_t field, Wire wire) { return varint(field << 3 | static_cast<uint32_t>(wire)); }
std::string bytes_field(uint32_t field, std::string_view data) {
  return field_key(field, Wire::length) + varint(data.size()) + std::string(data);
}
std::string number_field(uint32_t field, uint64_t value) {
  return field_key(field, Wire::varint) + varint(value);
}
std::string double_field(uint32_t field, double value) {
  return field_key(field, Wire::eight_bytes) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string float_field(uint32_t field, float value) {
  return field_key(field, Wire::four_bytes) + little_endian(std::bit_cast<uint32_t>(value));
}

// Field numbers as in TensorFlow's core/framework/summary.proto, tensor.proto, and core/util/event.proto.
constexpr uint32_t event_wall_time = 1, event_step = 2, event_version = 3, event_summary = 5;
constexpr uint32_t summary_value = 1, value_tag = 1, value_simple = 2, value_tensor = 8, value_metadata = 9;
constexpr uint32_t tensor_dtype = 1, tensor_shape = 2, tensor_strings = 8, shape_dim = 2, dim_size = 1;
constexpr uint32_t metadata_plugin = 1, plugin_name = 1, dtype_string = 7;

std::string value_of(const TensorBoardValue& value) {
  const std::string tag = bytes_field(value_tag, value.tag);
  if (value.text.empty()) return tag + float_field(value_simple, static_cast<float>(value.number));
  const std::string tensor = number_field(tensor_dtype, dtype_string) +
                             bytes_field(tensor_shape, bytes_field(shape_dim, number_field(dim_size, 1))) +
                             bytes_field(tensor_strings, value.text);
  return tag + bytes_field(value_tensor, tensor) +
         bytes_field(value_metadata, bytes_field(metadata_plugin, bytes_field(plugin_name, "text")));
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> table = make_crc32c_table();
  uint32_t crc = 0xFFFFFFFF;
  for (const std::byte byte : bytes) crc = table[(crc ^ static_cast<uint32_t>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string tfrecord(std::string_view data) {
  const auto crc_of = [](std::string_view part) {
    return little_endian(masked(crc32c(std::as_bytes(std::span(part)))));
  };
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + crc_of(length) + std::string(data) + crc_of(data);
}

std::string first_event(double wall_time) {
  return tfrecord(double_field(event_wall_time, wall_time) + bytes_field(event_version, "brain.Event:2"));
}

std::string event_of(double wall_time, int64_t step, const std::vector<TensorBoardValue>& values) {
  std::string summary;
  for (const TensorBoardValue& value : values) summary += bytes_field(summary_value, value_of(value));
  return tfrecord(double_field(event_wall_time, wall_time) +
                  number_field(event_step, static_cast<uint64_t>(step)) +
                  bytes_field(event_summary, summary));
}

}  // namespace athanor
