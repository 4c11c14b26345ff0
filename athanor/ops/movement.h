// Changing shapes and keeping elements. Most results are views that cost nothing.
//
// Negative axes count from the end. All functions throw Error(shape) naming the shapes.
#pragma once
#include <source_location>
#include <vector>

#include "athanor/graph/tensor.h"

namespace athanor {

/// An argument that is a list of tensors, {a, b} or a vector, with the caller's line.
class TensorList {
 public:
  TensorList(std::initializer_list<Tensor> tensors,
             std::source_location where = std::source_location::current())
      : tensors_(tensors), where_(where) {}
  TensorList(std::vector<Tensor> tensors, std::source_location where = std::source_location::current())
      : tensors_(std::move(tensors)), where_(where) {}
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::source_location& where() const { return where_; }

 private:
  std::vector<Tensor> tensors_;
  std::source_location where_;
};

/// The same elements in another shape. One extent may be -1 and is then computed.
Tensor reshape(Operand x, const Ints& shape);
/// Joins axes [start, end] into one.
Tensor flatten(Operand x, int start = 0, int end = -1);
/// Drops all axes of extent 1, or the given axes, which must have extent 1.
Tensor squeeze(Operand x, const Ints& axes = {});
/// Adds an axis of extent 1 before `axis` of the result.
Tensor unsqueeze(Operand x, int axis);
/// Axis i of the result is axis axes[i] of x.
Tensor permute(Operand x, const Ints& axes);
/// Exchanges two axes.
Tensor transpose(Operand x, int a = -2, int b = -1);
/// Adds axes in front and repeats extents of 1, as in NumPy.
Tensor broadcast_to(Operand x, const Shape& shape);
/// Repeats the whole tensor along each axis; `counts` is right-aligned.
Tensor tile(Operand x, const Ints& counts);
/// Repeats each element (slice) `count` times along an axis.
Tensor repeat_interleave(Operand x, int64_t count, int axis);

/// Joins tensors along an axis; their dtypes are promoted.
Tensor concat(const TensorList& tensors, int axis = 0);
/// Joins tensors along a new axis.
Tensor stack(const TensorList& tensors, int axis = 0);
/// Pieces of the given sizes, which must add up to the extent.
std::vector<Tensor> split(Operand x, const Ints& sizes, int axis = 0);
/// `parts` pieces. If `parts` does not divide the extent, the last piece is smaller and there may be fewer
/// pieces, as in PyTorch's chunk.
std::vector<Tensor> chunk(Operand x, int64_t parts, int axis = 0);

/// Adds low[i] elements of `value` before axis i and high[i] after it.
Tensor pad(Operand x, const Ints& low, const Ints& high, double value = 0);
/// Reverses axes ({}: all).
Tensor flip(Operand x, const Ints& axes = {});
/// Shifts cyclically along an axis.
Tensor roll(Operand x, int64_t shift, int axis);
/// Windows: an axis of extent n becomes two, [(n - span) / step + 1, window], with span = (window - 1) *
/// dilation + 1.
Tensor unfold(Operand x, int axis, int64_t window, int64_t step = 1, int64_t dilation = 1);
/// The transpose of unfold: axes [windows, window] at `axis` become one of extent `size`; overlaps are
/// summed.
Tensor fold(Operand x, int axis, int64_t size, int64_t step = 1, int64_t dilation = 1);

}  // namespace athanor
