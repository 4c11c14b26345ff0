// One window of a blocked maximum pooling and its gradient, vectorised over the channels of the block.
#pragma once
#include <cstdint>

namespace athanor::cpu {

/// `x` and `dx` point at the window's first element: `rows` x `columns` elements of `block` channels, with
/// rows `row_stride` apart. For each channel the first maximum (a NaN counts as one) takes dy; the others
/// take 0. The result is stored if `store`, else added.
using MaxWindow = void (*)(const float* x, int64_t row_stride, int64_t rows, int64_t columns, int block,
                           const float* dy, float* dx, bool store);

/// Stores the maximum of each channel; NaN if one of the elements is. The window has at least one element.
using MaxOfWindow = void (*)(const float* x, int64_t row_stride, int64_t rows, int64_t columns, int block,
                             float* out);

/// The kernels for this processor.
MaxWindow max_window_kernel();
MaxOfWindow max_of_window_kernel();

}  // namespace athanor::cpu
