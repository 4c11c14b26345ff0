// Inner loops of resampling and of sparse products: sums of elements and rows at given positions.
#pragma once
#include <cstdint>

namespace athanor::cpu {

template <class T>
struct TapKernels {
  /// y[i] = the sum over t < taps of weight[t * stride + i] * x[index[t * stride + i]], for i < count.
  void (*gather)(const T* x, const int32_t* index, const T* weight, int64_t taps, int64_t stride,
                 int64_t count, T* y);
  /// sums[t * stride + i] += dy[i] * x[index[t * stride + i]], for t < taps and i < count.
  void (*correlate)(const T* x, const int32_t* index, const T* dy, int64_t taps, int64_t stride,
                    int64_t count, T* sums);
  /// y[i] = the sum over r < rows of weight[r] * x[r][i]; at least one row.
  void (*combine)(const T* const* x, const T* weight, int64_t rows, int64_t count, T* y);
  /// y[i] += weight * x[i]
  void (*add)(T weight, const T* x, int64_t count, T* y);
  T (*dot)(const T* a, const T* b, int64_t count);
};

/// Vector code for float, plain loops for double.
template <class T>
const TapKernels<T>& tap_kernels();
template <>
const TapKernels<float>& tap_kernels();
template <>
const TapKernels<double>& tap_kernels();

}  // namespace athanor::cpu
