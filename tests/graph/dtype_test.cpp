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

// The value of a binary16 pattern, by its definition in IEEE 754.
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
  EXPECT_EQ(bf16(std::bit_cast<float>(one + 0x8000)).bits, 0x3f80);  // a tie: rounded to even
  EXPECT_EQ(bf16(std::bit_cast<float>(one + 0x8001)).bits, 0x3f81);
  EXPECT_EQ(bf16(std::bit_cast<float>(one + 0x18000)).bits, 0x3f82);  // a tie: rounded to even
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(NAN))));
  for (uint32_t bits = 0; bits < 0x7f80; bits += 7) {
    bf16 b;
    b.bits = static_cast<uint16_t>(bits);
    EXPECT_EQ(bf16(static_cast<float>(b)).bits, bits);
  }
}

/// The value of a float of 8 bits, from its sign, exponent and mantissa.
double value_of_f8(int code, int mantissa_bits, int bias, bool infinities) {
  const int exponent = (code & 0x7f) >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
  const int last = (1 << (7 - mantissa_bits)) - 1;
  const double sign = code & 0x80 ? -1 : 1;
  if (infinities && exponent == last) return mantissa == 0 ? sign * INFINITY : NAN;
  if (!infinities && (code & 0x7f) == 0x7f) return NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

template <class F8>
void check_f8(int mantissa_bits, int bias, bool infinities, int largest) {
  const auto value = [&](int code) { return value_of_f8(code, mantissa_bits, bias, infinities); };
  for (int code = 0; code < 256; ++code) {
    F8 x;
    x.bits = static_cast<uint8_t>(code);
    const double want = value(code);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(x))) << code;
      EXPECT_EQ(F8(static_cast<float>(x)).bits & 0x7f, 0x7f);
      continue;
    }
    EXPECT_EQ(static_cast<double>(static_cast<float>(x)), want) << code;
    EXPECT_EQ(std::signbit(static_cast<float>(x)), code >= 0x80);
    EXPECT_EQ(F8(static_cast<float>(x)).bits, code);
  }
  // Rounds between neighbours. The last neighbour is the first value that is too large.
  const double step = value(largest) - value(largest - 1);
  for (int low = 0; low <= largest; ++low)
    for (const int sign : {0, 0x80}) {
      const double a = value(low), b = low == largest ? a + step : value(low + 1);
      const auto middle = static_cast<float>((a + b) / 2) * (sign ? -1 : 1);
      const auto code = [](float x) { return static_cast<int>(F8(x).bits); };
      EXPECT_EQ(code(middle), sign | (low % 2 == 0 ? low : low + 1)) << low;
      EXPECT_EQ(code(std::nextafterf(middle, 0.0F)), sign | low) << low;
      EXPECT_EQ(code(std::nextafterf(middle, sign ? -1e9F : 1e9F)), sign | (low + 1)) << low;
    }
  for (const float large : {1e6F, 1e30F, std::numeric_limits<float>::max(), INFINITY}) {
    EXPECT_EQ(F8(large).bits, largest + 1);
    EXPECT_EQ(F8(-large).bits, 0x80 | (largest + 1));
  }
  EXPECT_EQ(F8(1e-30F).bits, 0);
  EXPECT_EQ(F8(-1e-42F).bits, 0x80);
}

TEST(DType, F8HasOcpsValuesAndRoundsToNearestEven) {
  check_f8<f8e4m3>(3, 7, false, 0x7e);
  check_f8<f8e5m2>(2, 15, true, 0x7b);
  EXPECT_EQ(static_cast<float>(f8e4m3(1000.0F / 3)), 320.0F);
  EXPECT_EQ(static_cast<float>(f8e5m2(50000.0F)), 49152.0F);
}

TEST(DType, PromotionIsSymmetricAndKeepsValues) {
  for (int i = 0; i < dtype_count; ++i)
    for (int j = 0; j < dtype_count; ++j) {
      const auto a = static_cast<DType>(i), b = static_cast<DType>(j);
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(promote(a, b), a), promote(a, b));
    }
  EXPECT_EQ(promote(DType::f16, DType::bf16), DType::f32);
  EXPECT_EQ(promote(DType::f8e4m3, DType::f8e5m2), DType::f32);
  EXPECT_EQ(promote(DType::f8e4m3, DType::bf16), DType::bf16);
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
    std::vector<double> expected = type == DType::b8 ? std::vector<double>{0, 1, 1, 1} : values;
    if (size_of(type) == 1 && is_float(type)) expected[3] = 96;
    EXPECT_EQ(back, expected) << to_string(type);
  }
}

}  // namespace
}  // namespace athanor
