// One window of a blocked maximum pooling and its gradient, vectorised over the channels of the block.
#pragma once
#include <cstdint>
#include <type_traits>

#include "athanor/graph/dtype.h"

namespace athanor::cpu {

/// Kernels for this processor. `x` points at the window's first element: `rows` x `columns` elements of
/// `block` channels (8 or 16), with rows `row_stride` apart. The window has at least one element.
template <class T>
struct WindowKernels {
  /// Stores the maximum of each channel; NaN if one of the elements is.
  void (*maximum)(const T* x, int64_t row_stride, int64_t rows, int64_t columns, int block, float* out);
  /// For each channel the first maximum takes dy, or the last NaN if there is one; the others take 0. The
  /// result is stored in the window of `dx` if `store`, else added to it.
  void (*gradient)(const T* x, int64_t row_stride, int64_t rows, int64_t columns, int block, const T* dy,
                   float* dx, bool store);
};

/// The types that blocked layouts may have.
template <class T>
inline constexpr bool has_window_kernels =
    std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, f16>;
template <class T>
WindowKernels<T> window_kernels();
template <>
WindowKernels<float> window_kernels();
template <>
WindowKernels<bf16> window_kernels();
template <>
WindowKernels<f16> window_kernels();

}  // namespace athanor::cpu
