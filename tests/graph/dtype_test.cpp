#include "athanor/graph/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "athanor/base/error.h"
#include "athanor/graph/host_array.h"
#include "athanor/graph/shape.h"

namespace athanor {
namespace {

// The value of a binary16 pattern, from its definition in IEEE 754.
double value_of_f16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

f16 with_bits(uint16_t bits) {
  f16 h;
  h.bits = bits;
  return h;
}

TEST(DType, EveryF16ConvertsExactlyAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const double expected = value_of_f16(pattern);
    const auto got = static_cast<float>(with_bits(pattern));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got));
      EXPECT_TRUE(std::isnan(static_cast<float>(f16(got))));
      continue;
    }
    EXPECT_EQ(got, expected) << bits;
    EXPECT_EQ(f16(got).bits, pattern);
  }
}

TEST(DType, F16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {  // between neighbours of the same sign
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const double a = value_of_f16(low), b = value_of_f16(high), middle = (a + b) / 2;
    EXPECT_EQ(f16(static_cast<float>(middle)).bits, bits % 2 == 0 ? low : high);
    EXPECT_EQ(f16(std::nextafterf(static_cast<float>(middle), 0.0F)).bits, low);
    EXPECT_EQ(f16(std::nextafterf(static_cast<float>(middle), 1e9F)).bits, high);
  }
  EXPECT_EQ(f16(65519.99F).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(f16(-1e10F).bits, 0xfc00);
}

TEST(DType, Bf16RoundsToNearestEven) {
  EXPECT_EQ(bf16(1.0F).bits, 0x3f80);
  const auto one = std::bit_cast<uint32_t>(1.0F);
  EXPECT_EQ(bf16(std::bit_cast<float>(one + 0x8000)).bits, 0x3f80);  // a tie: to even
  EXPECT_EQ(bf16(std::bit_cast<float>(one + 0x8001)).bits, 0x3f81);
  EXPECT_EQ(bf16(std::bit_cast<float>(one + 0x18000)).bits, 0x3f82);  // a tie: to even
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(NAN))));
  for (uint32_t bits = 0; bits < 0x7f80; bits += 7) {
    bf16 b;
    b.bits = static_cast<uint16_t>(bits);
    EXPECT_EQ(bf16(static_cast<float>(b)).bits, bits);
  }
}

TEST(DType, PromotionIsSymmetricAndKeepsValues) {
  for (int i = 0; i < dtype_count; ++i)
    for (int j = 0; j < dtype_count; ++j) {
      const auto a = static_cast<DType>(i), b = static_cast<DType>(j);
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(promote(a, b), a), promote(a, b));
    }
  EXPECT_EQ(promote(DType::f16, DType::bf16), DType::f32);
  EXPECT_EQ(promote(DType::i8, DType::u8), DType::i32);
  EXPECT_EQ(promote(DType::i64, DType::f16), DType::f16);
  EXPECT_EQ(promote(DType::b8, DType::u8), DType::u8);
}

TEST(DType, NamesRoundTripAndMistakesFindTheNearest) {
  for (int i = 0; i < dtype_count; ++i)
    EXPECT_EQ(parse_dtype(to_string(static_cast<DType>(i))), static_cast<DType>(i));
  try {
    parse_dtype("fp32");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::name);
    EXPECT_NE(error.hint().find("f32"), std::string::npos);
  }
}

TEST(Shape, BroadcastsAsNumPy) {
  EXPECT_EQ(broadcast_shapes({3, 1, 5}, {4, 5}), (Shape{3, 4, 5}));
  EXPECT_EQ(broadcast_shapes({}, {2}), (Shape{2}));
  EXPECT_EQ(broadcast_shapes({0, 1}, {1, 3}), (Shape{0, 3}));
  EXPECT_THROW(broadcast_shapes({3}, {4}), Error);
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_THROW((Shape{-1}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_EQ((Shape{int64_t{1} << 40, 0}).size(), 0);
  EXPECT_THROW(normalize_axis(2, 2), Error);
  EXPECT_THROW(normalize_axes({0, -2}, 2), Error);
}

TEST(HostArray, DoublesRoundTripThroughEveryDType) {
  const std::vector<double> values{0, 1, 2, 100};
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    const auto back = to_doubles(from_doubles(type, {4}, values));
    const std::vector<double> expected = type == DType::b8 ? std::vector<double>{0, 1, 1, 1} : values;
    EXPECT_EQ(back, expected) << to_string(type);
  }
}

}  // namespace
}  // namespace athanor
