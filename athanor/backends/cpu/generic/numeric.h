// The arithmetic of kernels for each element type.
#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "athanor/graph/dtype.h"

namespace athanor::cpu {

/// `Acc` is the type in which sums of T are computed: float for narrow floats, the unsigned type for
/// integers (so that overflow wraps), and uint32_t for bool (a sum of booleans is true if it is not 0).
template <class T>
struct Arithmetic {
  using Acc = T;
};
template <>
struct Arithmetic<f16> {
  using Acc = float;
};
template <>
struct Arithmetic<bf16> {
  using Acc = float;
};
template <>
struct Arithmetic<f8e4m3> {
  using Acc = float;
};
template <>
struct Arithmetic<f8e5m2> {
  using Acc = float;
};
template <>
struct Arithmetic<int64_t> {
  using Acc = uint64_t;
};
template <>
struct Arithmetic<int32_t> {
  using Acc = uint32_t;
};
template <>
struct Arithmetic<int8_t> {
  using Acc = uint32_t;
};  // wraps modulo 2^8 when stored
template <>
struct Arithmetic<uint8_t> {
  using Acc = uint32_t;
};
template <>
struct Arithmetic<bool> {
  using Acc = uint32_t;
};

template <class T>
using Acc = typename Arithmetic<T>::Acc;

template <class T>
inline Acc<T> load(T value) {
  if constexpr (std::is_same_v<T, bf16>)
    return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);  // inline: this is in inner loops
  else
    return static_cast<Acc<T>>(value);
}

template <class T>
inline T store(Acc<T> value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_same_v<T, bf16>) {  // as bf16(value), but inline and without a branch
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, nan = (bits >> 16) | 0x40;
    bf16 result;
    result.bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest);
    return result;
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace athanor::cpu
