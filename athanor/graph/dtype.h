// Element types.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace athanor {

/// The type of a tensor's elements. f16, bf16, f8e4m3 and f8e5m2 are storage types: arithmetic on them is
/// done in f32 and rounded (to nearest even) when stored. b8 is a boolean in one byte, 0 or 1.
enum class DType : uint8_t { f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, b8 };

constexpr int dtype_count = 11;

/// Bytes of one element.
constexpr size_t size_of(DType t) {
  constexpr size_t sizes[] = {8, 4, 2, 2, 1, 1, 8, 4, 1, 1, 1};
  return sizes[static_cast<int>(t)];
}
constexpr bool is_float(DType t) { return t <= DType::f8e5m2; }
/// Whether a type is a float that values are only stored in.
constexpr bool is_narrow_float(DType t) { return t >= DType::f16 && t <= DType::f8e5m2; }
/// The type in which kernels hold an element in registers: f32 for narrow floats, else the type itself.
constexpr DType computed_in(DType t) { return is_narrow_float(t) ? DType::f32 : t; }
constexpr bool is_int(DType t) { return t >= DType::i64 && t <= DType::u8; }

/// "f32", "bool", ...
std::string_view to_string(DType t);
/// The inverse of to_string; throws Error(name) with the nearest match.
DType parse_dtype(std::string_view name);

/// The type of the result of an operation on both: the wider of two floats or two integers,
/// floats before integers before bool. Two different floats of equal size give f32, i8 with u8 gives i32.
DType promote(DType a, DType b);

/// IEEE binary16, storage only.
struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
};

/// bfloat16 (the upper half of an IEEE binary32), storage only.
struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value);
  explicit operator float() const;
};

/// 8-bit float of the Open Compute Project ("OCP 8-bit Floating Point Specification", 2023), storage only:
/// 4 bits of exponent, 3 of mantissa. It has no infinities: values that round to more than 448 become NaN, as
/// in PyTorch and ml_dtypes (float8_e4m3fn). AMD's gfx940 to gfx942 have other types of this size (fnuz).
struct f8e4m3 {
  uint8_t bits = 0;
  f8e4m3() = default;
  explicit f8e4m3(float value);
  explicit operator float() const;
};

/// The upper half of an IEEE binary16 (float8_e5m2): up to 57344, with infinities.
struct f8e5m2 {
  uint8_t bits = 0;
  f8e5m2() = default;
  explicit f8e5m2(float value);
  explicit operator float() const;
};

/// The DType of a C++ type: dtype_of<float> is f32.
template <class T>
inline constexpr DType dtype_of = DType::b8;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f8e4m3> = DType::f8e4m3;
template <>
inline constexpr DType dtype_of<f8e5m2> = DType::f8e5m2;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;

/// Calls f(T{}) with the C++ type of `t` (bool for b8).
template <class F>
decltype(auto) visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(f16{});
    case DType::bf16:
      return f(bf16{});
    case DType::f8e4m3:
      return f(f8e4m3{});
    case DType::f8e5m2:
      return f(f8e5m2{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::b8:
      break;
  }
  return f(bool{});
}

}  // namespace athanor
