// TensorBoard's event files: records of protocol buffers, each with checksums.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(std::span<const std::byte> bytes);

/// A number or a text at a step. Tags are like "loss/train": TensorBoard groups them by the part before the
/// slash.
struct TensorBoardValue {
  std::string tag;
  double number = 0;
  std::string text = {};  // shown instead of the number, if not empty
};

/// A record of TFRecord: the length (u64) and its masked CRC, the data and its masked CRC, all little endian.
std::string tfrecord(std::string_view data);

/// The record that a file begins with: "brain.Event:2". `wall_time`: seconds since 1970.
std::string first_event(double wall_time);
/// A record with values of a step.
std::string event_of(double wall_time, int64_t step, const std::vector<TensorBoardValue>& values);

}  // namespace athanor
