// Operations on a contraction's results before they are stored.
#pragma once
#include <cmath>
#include <string>
#include <type_traits>

#include "athanor/base/error.h"

namespace athanor::cpu {

enum class Activation : uint8_t { none, relu, tanh, sigmoid };

inline Activation activation_of(const std::string& name) {
  if (name.empty()) return Activation::none;
  if (name == "relu") return Activation::relu;
  if (name == "tanh") return Activation::tanh;
  if (name == "sigmoid") return Activation::sigmoid;
  throw Error(ErrorCode::internal, "no such epilogue: " + name);
}

template <class T>
T activate(Activation activation, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (activation) {
      case Activation::none:
        break;
      case Activation::relu:
        return value < 0 ? T{0} : value;  // keeps NaN
      case Activation::tanh:
        return std::tanh(value);
      case Activation::sigmoid:
        return 1 / (1 + std::exp(-value));
    }
  }
  return value;
}

}  // namespace athanor::cpu
