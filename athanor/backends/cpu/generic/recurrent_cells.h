// One time of a recurrence for one example: the arithmetic after the products.
#pragma once
#include <cstdint>

namespace athanor::cpu {

/// H is the number of features; [begin, end) of them are computed. Gates are given before their activations,
/// one after another, as in athanor/ops/recurrent.h. Results must not overlap operands.
template <class T>
struct CellKernels {
  /// Takes gates [4H] (the state's part is added) and the cell's state before; computes the states after.
  void (*lstm)(int64_t h, int64_t begin, int64_t end, const T* gates, const T* before, T* hidden, T* cell);
  /// Takes the same, the cell's state after, and the states' gradients, each in two parts; computes
  /// lstm_grad's row [5H].
  void (*lstm_grad)(int64_t h, int64_t begin, int64_t end, const T* gates, const T* before, const T* cell,
                    const T* dy, const T* later_hidden, const T* later_cell, T* row);
  /// Takes the given gates [3H], the state's own part [3H] and the state before; computes the state after.
  void (*gru)(int64_t h, int64_t begin, int64_t end, const T* given, const T* own, const T* before,
              T* hidden);
  /// Takes the same and the state's gradient in two parts; computes gru_grad's row [5H].
  void (*gru_grad)(int64_t h, int64_t begin, int64_t end, const T* given, const T* own, const T* before,
                   const T* dy, const T* later, T* row);
};

/// Vector code for float, plain loops for double.
template <class T>
const CellKernels<T>& cell_kernels();
template <>
const CellKernels<float>& cell_kernels();
template <>
const CellKernels<double>& cell_kernels();

}  // namespace athanor::cpu
