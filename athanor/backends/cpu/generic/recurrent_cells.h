// One time of a recurrence for one example: what comes after the products.
#pragma once
#include <cstdint>

namespace athanor::cpu {

/// H is the number of features, of which [begin, end) are computed. Gates are those before their activations,
/// one after another, as in athanor/ops/recurrent.h. Results may not overlap what is read.
template <class T>
struct CellKernels {
  /// gates [4H] with the state's part, the cell's state before -> the states after.
  void (*lstm)(int64_t h, int64_t begin, int64_t end, const T* gates, const T* before, T* hidden, T* cell);
  /// The same, the cell's state after, the states' gradients, each in two parts -> lstm_grad's row [5H].
  void (*lstm_grad)(int64_t h, int64_t begin, int64_t end, const T* gates, const T* before, const T* cell,
                    const T* dy, const T* later_hidden, const T* later_cell, T* row);
  /// Given gates [3H], the state's own part [3H], the state before -> the state after.
  void (*gru)(int64_t h, int64_t begin, int64_t end, const T* given, const T* own, const T* before,
              T* hidden);
  /// The same and the state's gradient in two parts -> gru_grad's row [5H].
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
