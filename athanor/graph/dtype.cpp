#include "athanor/graph/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor {

static constexpr std::array<std::string_view, dtype_count> names = {
    "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i8", "u8", "bool"};

std::string_view to_string(DType t) { return names[static_cast<size_t>(t)]; }

DType parse_dtype(std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<DType>(i);
  throw Error(ErrorCode::name, "unknown dtype '" + std::string(name) + "'", {},
              nearest_hint(name, {names.begin(), names.end()}));
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) || is_float(b)) {
    if (!is_float(a)) return b;
    if (!is_float(b)) return a;
    if (size_of(a) == size_of(b)) return DType::f32;  // f16 with bf16, f8e4m3 with f8e5m2
    return size_of(a) > size_of(b) ? a : b;
  }
  if (a == DType::b8) return b;
  if (b == DType::b8) return a;
  if (size_of(a) == size_of(b)) return DType::i32;  // i8 with u8
  return size_of(a) > size_of(b) ? a : b;
}

f16::f16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (u >> 16) & 0x8000;
  const uint32_t magnitude = u & 0x7fffffff;
  if (magnitude >= 0x7f800000) {  // infinity, NaN
    bits = static_cast<uint16_t>(sign | 0x7c00 | (magnitude > 0x7f800000 ? 0x200 : 0));
  } else if (magnitude >= 0x477ff000) {  // rounds past the largest finite value, 65504
    bits = static_cast<uint16_t>(sign | 0x7c00);
  } else if (magnitude < 0x38800000) {  // subnormal in f16: units of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
    bits = static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyintf(scaled)));
  } else {
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
  }
}

f16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t biased = exponent == 31 ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | (biased << 23) | (mantissa << 13));
}

bf16::bf16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffff) > 0x7f800000) {
    bits = static_cast<uint16_t>((u >> 16) | 0x40);  // keep NaN a NaN
  } else {
    bits = static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
}

bf16::operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

namespace {

/// A format of 8-bit floats, converted as in the kernel language (language/common.kernel).
struct EightBits {
  uint32_t mantissa;  // bits of the mantissa
  uint32_t shift;     // the exponent bias of f32 minus this format's
  uint32_t largest;   // the code of the largest finite number
  uint32_t overflow;  // the code of larger numbers
  float smallest;     // the smallest subnormal number

  uint8_t code(float value) const {
    const auto u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (u >> 24) & 0x80, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) return static_cast<uint8_t>(sign | 0x7f);
    const uint32_t below = 23 - mantissa, first_normal = (shift + 1) << 23;
    if (magnitude < first_normal)
      return static_cast<uint8_t>(
          sign | static_cast<uint32_t>(std::nearbyintf(std::bit_cast<float>(magnitude) / smallest)));
    const uint32_t rounded = magnitude + (1U << (below - 1)) - 1 + ((magnitude >> below) & 1);
    const uint32_t code = (rounded - (shift << 23)) >> below;
    return static_cast<uint8_t>(sign | (code > largest ? overflow : code));
  }
  float value(uint8_t bits) const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24, magnitude = bits & 0x7f;
    const float finite = magnitude < 1U << mantissa
                             ? static_cast<float>(magnitude) * smallest
                             : std::bit_cast<float>((magnitude << (23 - mantissa)) + (shift << 23));
    // Codes above the largest number: infinity, if the format has it, then NaN.
    const bool infinite = magnitude == overflow && overflow != 0x7f;
    const float all =
        magnitude <= largest ? finite : std::bit_cast<float>(infinite ? 0x7f800000U : 0x7fc00000U);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(all));
  }
};
constexpr EightBits e4m3{3, 120, 0x7e, 0x7f, 0x1p-9F}, e5m2{2, 112, 0x7b, 0x7c, 0x1p-16F};

}  // namespace

f8e4m3::f8e4m3(float value) : bits(e4m3.code(value)) {}
f8e4m3::operator float() const { return e4m3.value(bits); }
f8e5m2::f8e5m2(float value) : bits(e5m2.code(value)) {}
f8e5m2::operator float() const { return e5m2.value(bits); }

}  // namespace athanor
