// Operations on a contraction's results before they are stored.
#pragma once
#include <cmath>
#include <type_traits>

#include "athanor/kernels/epilogue.h"

namespace athanor::cpu {

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
