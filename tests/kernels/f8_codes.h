// Matrices of 8-bit floats by their codes, for tests of kernels that change the bits on their way.
#pragma once
#include <random>

#include "gpu_kernels.h"

namespace athanor::testing {

inline double value_of_code(DType dtype, uint8_t code) {
  f8e4m3 four;
  f8e5m2 five;
  four.bits = five.bits = code;
  return static_cast<double>(dtype == DType::f8e4m3 ? static_cast<float>(four) : static_cast<float>(five));
}

/// A matrix of these codes, in row-major order. Strides of 0 repeat the last codes.
inline TestOperand matrix_of_codes(DType dtype, const Shape& shape, const std::vector<uint8_t>& codes,
                                   const Ints& strides = {}) {
  TestOperand operand =
      make_value(dtype, shape, std::vector<double>(static_cast<size_t>(shape.size())), {}, strides);
  auto* const memory = static_cast<uint8_t*>(operand.address());
  for (int64_t i = 0; i < shape.size(); ++i)
    memory[offset_of(operand.desc, i)] = codes[static_cast<size_t>(i)];
  for (int64_t i = 0; i < shape.size(); ++i)
    operand.values[static_cast<size_t>(i)] = value_of_code(dtype, memory[offset_of(operand.desc, i)]);
  return operand;
}

/// Any numbers, some of them -0. Those of f8e5m2 are smaller than 2: beside larger ones the smallest would be
/// lost.
inline TestOperand numbers_by_codes(DType dtype, const Shape& shape, unsigned seed,
                                    const Ints& strides = {}) {
  std::mt19937 generator(seed);
  std::vector<uint8_t> codes(static_cast<size_t>(shape.size()));
  for (uint8_t& code : codes) {
    code = static_cast<uint8_t>(generator());
    if (dtype == DType::f8e5m2) code &= 0xbf;
    if (!std::isfinite(value_of_code(dtype, code)) || generator() % 8 == 0) code = 0x80;
  }
  return matrix_of_codes(dtype, shape, codes, strides);
}

/// Row i of A has code i at one step, and zeros of both signs elsewhere. Column j of B has code j at all
/// steps. So each product of two codes is one element of A B, unless one of B is infinite.
struct EveryCode {
  static constexpr int64_t codes = 256, k = 80;
  std::vector<uint8_t> a = std::vector<uint8_t>(codes * k), b = std::vector<uint8_t>(k * codes);
  EveryCode() {
    for (size_t i = 0; i < a.size(); ++i) a[i] = i % 3 == 0 ? 0x80 : 0;
    for (int64_t i = 0; i < codes; ++i) {
      a[static_cast<size_t>(i * k + i * 7 % k)] = static_cast<uint8_t>(i);
      for (int64_t step = 0; step < k; ++step)
        b[static_cast<size_t>(step * codes + i)] = static_cast<uint8_t>(i);
    }
  }
};

}  // namespace athanor::testing
