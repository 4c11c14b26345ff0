#include "athanor/formats/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>

namespace athanor {
namespace {

uint32_t crc_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

// The vectors of RFC 3720, appendix B.4, and the usual check value.
TEST(TensorBoard, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc_of("123456789"), 0xE3069283U);
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc_of(std::string(32, '\xff')), 0x62A8AB43U);
  EXPECT_EQ(crc_of(""), 0U);
}

// The bytes that tensorboard.compat.proto and tensorboard.summary.writer.record_writer (2.21) write for it.
TEST(TensorBoard, RecordsAreThoseOfTensorBoardItself) {
  const auto hex = [](std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result;
    for (const char c : text) {
      result += digits[static_cast<unsigned char>(c) >> 4];
      result += digits[static_cast<unsigned char>(c) & 15];
    }
    return result;
  };
  EXPECT_EQ(hex(first_event(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(hex(event_of(2.5, 300, {{"loss/train", 0.25}, {"lr", 1e-3}})),
            "2c00000000000000f4aecc4509000000000000044010ac022a1e0a110a0a6c6f73732f747261696e150000803e"
            "0a090a026c72156f12833a13ee8c34");
  EXPECT_EQ(hex(event_of(3.5, 7, {{"sample", 0, "one\ntwo"}})),
            "34000000000000005e33175c090000000000000c4010072a270a250a0673616d706c6542110807120412020801"
            "42076f6e650a74776f4a080a060a0474657874e6e7c58d");
}

}  // namespace
}  // namespace athanor
