// Reductions, scans and order.
//
// A reduction drops its axes, or keeps them with extent 1. All throw Error(shape) for an axis out of range
// and for the largest or smallest of no elements, and Error(dtype) for dtypes without the operation.
#pragma once
#include <initializer_list>
#include <utility>

#include "athanor/graph/tensor.h"

namespace athanor {

/// The axes of a reduction: all (the default), one, or a list. Negative axes count from the end.
struct Axes {
  bool all = false;
  Ints list;
  Axes() : all(true) {}
  Axes(int axis) : list{axis} {}
  Axes(std::initializer_list<int64_t> axes) : list(axes) {}
  Axes(Ints axes) : list(std::move(axes)) {}
};

/// The sum; i64 for integers and bool. The sum of no elements is 0.
Tensor sum(Operand x, const Axes& axes = {}, bool keep_dims = false);
/// The mean; f32 for integers and bool.
Tensor mean(Operand x, const Axes& axes = {}, bool keep_dims = false);
/// The variance, in two passes (of f16 and bf16: in one), divided by (n - correction). A correction of 1
/// estimates it from a sample; 0 is the variance of the values themselves.
Tensor var(Operand x, const Axes& axes = {}, bool keep_dims = false, double correction = 1);
/// sqrt(var)
Tensor stddev(Operand x, const Axes& axes = {}, bool keep_dims = false, double correction = 1);
Tensor prod(Operand x, const Axes& axes = {}, bool keep_dims = false);
/// The largest (smallest) element; NaN if any is NaN. Equal largest elements share the gradient.
Tensor max(Operand x, const Axes& axes = {}, bool keep_dims = false);
Tensor min(Operand x, const Axes& axes = {}, bool keep_dims = false);
/// The index (i64) of the largest (smallest) element along an axis; the first of equal ones.
Tensor argmax(Operand x, int axis = -1, bool keep_dims = false);
Tensor argmin(Operand x, int axis = -1, bool keep_dims = false);
/// log(sum(exp(x))), without overflow.
Tensor logsumexp(Operand x, const Axes& axes = {}, bool keep_dims = false);
/// sum(|x|^p)^(1/p); p may be infinity.
Tensor norm(Operand x, const Axes& axes = {}, bool keep_dims = false, double p = 2);
/// bool: whether all (any) elements are not 0.
Tensor all(Operand x, const Axes& axes = {}, bool keep_dims = false);
Tensor any(Operand x, const Axes& axes = {}, bool keep_dims = false);

/// Mean and variance (correction 0) together, axes kept with extent 1.
struct Moments {
  Tensor mean, var;
};
Moments moments(Operand x, const Axes& axes = {});

/// Running sums along an axis; i64 for integers and bool.
Tensor cumsum(Operand x, int axis);

/// Sorts stably. NaN comes last (first if descending).
Tensor sort(Operand x, int axis = -1, bool descending = false);
/// The indices (i64) that sort x.
Tensor argsort(Operand x, int axis = -1, bool descending = false);
struct TopK {
  Tensor values, indices;
};
/// The k largest (smallest) elements along an axis, best first, and their indices (i64). Throws Error(value)
/// unless k is in [0, extent].
TopK topk(Operand x, int64_t k, int axis = -1, bool largest = true);

}  // namespace athanor
