// Joining, splitting and padding tensors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

int64_t no_flops(std::span<const TensorType>, const TensorType&, const Attrs&) { return 0; }

TensorType infer_concat(std::span<const TensorType> in, const Attrs& attrs) {
  const auto axis = static_cast<int>(attrs.integer("axis"));
  normalize_axis(axis, in[0].shape.rank());
  int64_t extent = 0;
  for (const auto& type : in) {
    if (type.dtype != in[0].dtype)
      throw Error(ErrorCode::dtype, "takes inputs of one dtype", {}, "Cast them first");
    if (type.shape.rank() != in[0].shape.rank() || type.shape.with(axis, 0) != in[0].shape.with(axis, 0))
      throw Error(ErrorCode::shape, fmt::format("shapes {} and {} differ in more than axis {}",
                                                to_string(in[0].shape), to_string(type.shape), axis));
    extent += type.shape[axis];
  }
  return {in[0].dtype, in[0].shape.with(axis, extent), {}};
}

std::vector<Tensor> concat_grad(const GradArgs& a) {
  const auto axis = static_cast<int>(a.attrs.integer("axis"));
  std::vector<Tensor> result;
  int64_t start = 0;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const int64_t extent = a.inputs[i].size(axis);
    result.push_back(a.needed[i] ? slice(a.grad, axis, start, start + extent) : Tensor());
    start += extent;
  }
  return result;
}

RefArray reference_concat(std::span<const RefArray> in, const Attrs& attrs) {
  const auto axis = static_cast<int>(attrs.integer("axis"));
  int64_t extent = 0;
  for (const auto& x : in) extent += x.shape[axis];
  RefArray result(in[0].shape.with(axis, extent));
  int64_t start = 0;
  for (const auto& x : in) {
    for_each_index(x.shape, [&](Ints index) {
      const double value = x[offset_of(x.shape, index)];
      index[static_cast<size_t>(axis)] += start;
      result[offset_of(result.shape, index)] = value;
    });
    start += x.shape[axis];
  }
  return result;
}

TensorType infer_pad(std::span<const TensorType> in, const Attrs& attrs) {
  const Ints &low = attrs.ints("low"), &high = attrs.ints("high");
  const auto rank = static_cast<size_t>(in[0].shape.rank());
  if (low.size() != rank || high.size() != rank)
    throw Error(ErrorCode::shape, fmt::format("{} and {} widths for {} axes", low.size(), high.size(), rank),
                {}, "Give one below and one above for each axis");
  Ints dims;
  for (size_t i = 0; i < rank; ++i) {
    if (low[i] < 0 || high[i] < 0)
      throw Error(ErrorCode::value,
                  fmt::format("negative width in [{}], [{}]", fmt::join(low, ", "), fmt::join(high, ", ")),
                  {}, "Use slice() to take elements away");
    dims.push_back(in[0].shape[static_cast<int>(i)] + low[i] + high[i]);
  }
  return {in[0].dtype, dims, {}};
}

std::vector<Tensor> pad_grad(const GradArgs& a) {
  const Ints& low = a.attrs.ints("low");
  Tensor dx = a.grad;
  for (int i = 0; i < dx.rank(); ++i) {
    const int64_t start = low[static_cast<size_t>(i)];
    dx = slice(dx, i, start, start + a.inputs[0].size(i));
  }
  return {dx};
}

RefArray reference_pad(std::span<const RefArray> in, const Attrs& attrs) {
  const Ints &low = attrs.ints("low"), &high = attrs.ints("high");
  Ints dims = in[0].shape.to_ints();
  for (size_t i = 0; i < dims.size(); ++i) dims[i] += low[i] + high[i];
  RefArray result(Shape(dims), attrs.number("value"));
  for_each_index(in[0].shape, [&](Ints index) {
    const double value = in[0][offset_of(in[0].shape, index)];
    for (size_t i = 0; i < index.size(); ++i) index[i] += low[i];
    result[offset_of(result.shape, index)] = value;
  });
  return result;
}

// Converts all tensors to one dtype.
std::vector<Tensor> promoted(const TensorList& list) {
  if (list.tensors().empty()) throw Error(ErrorCode::usage, "takes at least one tensor");
  DType dtype = list.tensors()[0].dtype();
  for (const Tensor& x : list.tensors()) dtype = promote(dtype, x.dtype());
  std::vector<Tensor> result;
  for (const Tensor& x : list.tensors()) result.push_back(cast(x, dtype));
  return result;
}

template <class Body>
Tensor on_list(const char* name, const TensorList& list, Body&& body) {
  const SourceScope scope(list.where());
  need_all(name, list.tensors());
  try {
    return body();
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), fmt::format("{}: {}", name, error.problem()),
                to_string(*SourceScope::current()), error.hint());
  }
}

}  // namespace

ATHANOR_OPS(joining) {
  define_op({.name = "concat",
             .doc = "tensors joined along an axis",
             .prim = Prim::concat,
             .arity = -1,
             .dtypes = all_dtypes(),
             .infer = infer_concat,
             .grad = concat_grad,
             .reference = reference_concat,
             .cases = {{{{{3}}, {{5}}}, {{"axis", int64_t{0}}}},
                       {{{{2, 3}}, {{2, 0}}, {{2, 17}}}, {{"axis", int64_t{1}}}},
                       {{{{1, 3, 2}}}, {{"axis", int64_t{1}}}}},
             .flops = no_flops});
  define_op({.name = "pad",
             .doc = "low[i] elements of a number before and high[i] after axis i",
             .prim = Prim::pad,
             .dtypes = all_dtypes(),
             .infer = infer_pad,
             .grad = pad_grad,
             .reference = reference_pad,
             .cases = {{{{{5}}}, {{"low", Ints{2}}, {"high", Ints{0}}, {"value", 1.0}}},
                       {{{{3, 7}}}, {{"low", Ints{0, 3}}, {"high", Ints{1, 1}}, {"value", 0.0}}},
                       {{{{0, 2}}}, {{"low", Ints{1, 0}}, {"high", Ints{2, 0}}, {"value", 2.0}}}},
             .flops = no_flops});
}

Tensor concat(const TensorList& tensors, int axis) {
  static const Op& op = find_op("concat");
  return on_list("concat", tensors, [&] {
    const auto list = promoted(tensors);
    const int64_t along = normalize_axis(axis, list[0].rank());
    return list.size() == 1 ? list[0]
                            : apply(op, std::vector<Operand>(list.begin(), list.end()), {{"axis", along}});
  });
}

Tensor stack(const TensorList& tensors, int axis) {
  return on_list("stack", tensors, [&] {
    auto list = promoted(tensors);
    for (Tensor& x : list) {
      if (x.shape() != tensors.tensors()[0].shape())
        throw Error(ErrorCode::shape,
                    fmt::format("shapes {} and {} differ", to_string(tensors.tensors()[0].shape()),
                                to_string(x.shape())));
      x = unsqueeze(x, axis);
    }
    return concat(list, axis);
  });
}

std::vector<Tensor> split(Operand x, const Ints& sizes, int axis) {
  return in_call(
      "split",
      [&] {
        const Tensor value = as_tensor(x);
        const int along = normalize_axis(axis, value.rank());
        if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != value.shape()[along] ||
            std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; }))
          throw Error(ErrorCode::shape, fmt::format("pieces of [{}] do not make up axis {}, which has {}",
                                                    fmt::join(sizes, ", "), along, value.shape()[along]));
        std::vector<Tensor> pieces;
        int64_t start = 0;
        for (int64_t size : sizes) {
          pieces.push_back(slice(value, along, start, start + size));
          start += size;
        }
        return pieces;
      },
      x);
}

std::vector<Tensor> chunk(Operand x, int64_t parts, int axis) {
  return in_call(
      "chunk",
      [&] {
        const Tensor value = as_tensor(x);
        if (parts < 1)
          throw Error(ErrorCode::value, fmt::format("{} parts", parts), {}, "Ask for at least one");
        const int64_t extent = value.size(axis), size = std::max<int64_t>(1, (extent + parts - 1) / parts);
        Ints sizes;
        for (int64_t start = 0; start < extent; start += size)
          sizes.push_back(std::min(size, extent - start));
        if (sizes.empty()) sizes.push_back(0);
        return split(value, sizes, axis);
      },
      x);
}

Tensor pad(Operand x, const Ints& low, const Ints& high, double value) {
  static const Op& op = find_op("pad");
  return in_call(
      "pad",
      [&] {
        const auto zero = [](int64_t width) { return width == 0; };
        if (static_cast<int>(low.size()) == x->rank() && std::all_of(low.begin(), low.end(), zero) &&
            low.size() == high.size() && std::all_of(high.begin(), high.end(), zero))
          return x.tensor();
        return apply(op, {x}, {{"low", low}, {"high", high}, {"value", value}});
      },
      x);
}

Tensor flip(Operand x, const Ints& axes) {
  return in_call(
      "flip",
      [&] {
        Tensor value = as_tensor(x);
        Ints chosen = normalize_axes(axes, value.rank());
        if (axes.empty()) {
          chosen.resize(static_cast<size_t>(value.rank()));
          std::iota(chosen.begin(), chosen.end(), 0);
        }
        std::vector<Index> reversed(static_cast<size_t>(value.rank()), Slice());
        for (int64_t axis : chosen) reversed[static_cast<size_t>(axis)] = Slice(Slice::none, Slice::none, -1);
        return slice(value, reversed);
      },
      x);
}

Tensor roll(Operand x, int64_t shift, int axis) {
  return in_call(
      "roll",
      [&] {
        Tensor value = as_tensor(x);
        const int64_t extent = value.size(axis);
        if (extent == 0 || shift % extent == 0) return value;
        const int64_t cut = extent - (shift % extent + extent) % extent;
        return concat({slice(value, axis, cut, extent), slice(value, axis, 0, cut)}, axis);
      },
      x);
}

}  // namespace athanor
