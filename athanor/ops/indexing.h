// Parts of tensors: slices, gather, scatter.
//
// All functions throw Error(shape) for shapes that do not fit and axes out of range. Indices in a tensor are
// checked when they are used: an index out of range is then an Error(value) with the index and the caller's
// line.
#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "athanor/graph/tensor.h"

namespace athanor {

/// Python's start:stop:step. `none` leaves a bound open; negative bounds count from the end.
struct Slice {
  static constexpr int64_t none = std::numeric_limits<int64_t>::min();
  int64_t start = none, stop = none, step = 1;
  Slice() = default;
  Slice(int64_t first, int64_t last, int64_t by = 1) : start(first), stop(last), step(by) {}
};

/// What slice() does to one axis: an integer takes one element and drops the axis; a Slice keeps a range;
/// `Index::ellipsis` means all axes not named; `Index::new_axis` adds an axis of extent 1.
struct Index {
  enum class Kind { integer, slice, ellipsis, new_axis };
  Index(int64_t position) : kind(Kind::integer), at(position) {}
  Index(int position) : Index(int64_t{position}) {}
  Index(const Slice& range) : kind(Kind::slice), slice(range) {}
  static const Index ellipsis, new_axis;

  Kind kind;
  int64_t at = 0;
  Slice slice;

 private:
  explicit Index(Kind k) : kind(k) {}
};

/// NumPy's x[...]: slice(x, {0, Slice(1, -1), Index::ellipsis, Slice(Slice::none, Slice::none, -1)}). Axes
/// not named are kept whole. Throws Error(value) for an integer out of range; ranges are cut as in Python.
Tensor slice(Operand x, const std::vector<Index>& indices);
/// Elements [start, stop) of one axis.
Tensor slice(Operand x, int axis, int64_t start, int64_t stop, int64_t step = 1);

/// Slices of x picked along an axis by i64 (or narrower) indices of any shape:
/// x.shape[:axis] + index.shape + x.shape[axis+1:]. Indices must lie in [0, extent).
Tensor take(Operand x, Operand index, int axis = 0);
/// Rows of weight [V, D] for labels [...]: [..., D]. The same as take(weight, labels, 0).
Tensor embedding(Operand weight, Operand labels);
/// out[i, j] = x[index[i, j], j] for axis 0: NumPy's take_along_axis, PyTorch's gather. The other extents of
/// x and index broadcast. Indices must lie in [0, extent).
Tensor gather(Operand x, Operand index, int axis);
/// The transpose of gather: a tensor of zeros with `extent` along the axis, to which every element of source
/// is added at its index. Index and source have the same shape. Indices must lie in [0, extent).
Tensor scatter_add(Operand index, Operand source, int axis, int64_t extent);

}  // namespace athanor
