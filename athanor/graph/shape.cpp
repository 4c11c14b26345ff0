#include "athanor/graph/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/base/error.h"

namespace athanor {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > max_rank)
    throw Error(ErrorCode::shape, fmt::format("a tensor of rank {} was asked for", dims.size()), {},
                fmt::format("The highest rank is {}", max_rank));
  int64_t elements = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      throw Error(ErrorCode::shape,
                  fmt::format("negative extent {} in shape [{}]", dims[i], fmt::join(dims, ", ")));
    dims_[i] = dims[i];
    if (dims[i] != 0 && elements > (int64_t{1} << 62) / dims[i])
      throw Error(ErrorCode::shape, fmt::format("shape [{}] has too many elements", fmt::join(dims, ", ")));
    elements *= dims[i];
  }
}

int64_t Shape::size() const {
  int64_t n = 1;
  for (int64_t d : *this) n *= d;
  return n;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

Shape Shape::with(int axis, int64_t extent) const {
  Shape result = *this;
  result.dims_[static_cast<size_t>(normalize_axis(axis, rank_))] = extent;
  return result;
}

Shape Shape::insert(int axis, int64_t extent) const {
  Ints dims = to_ints();
  dims.insert(dims.begin() + axis, extent);
  return {dims};
}

Shape Shape::erase(int axis) const {
  Ints dims = to_ints();
  dims.erase(dims.begin() + axis);
  return {dims};
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }

Ints contiguous_strides(const Shape& shape) {
  Ints strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Ints dims(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1)
      throw Error(ErrorCode::shape, fmt::format("shapes {} and {} do not broadcast: {} against {} at axis {}",
                                                to_string(a), to_string(b), da, db, i - rank));
    dims[static_cast<size_t>(i)] = da == 1 ? db : da;
  }
  return {dims};
}

int normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw Error(ErrorCode::shape, fmt::format("axis {} is out of range for a tensor of rank {}", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Ints normalize_axes(const Ints& axes, int rank) {
  Ints result;
  for (int64_t axis : axes) result.push_back(normalize_axis(axis, rank));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    throw Error(ErrorCode::shape, fmt::format("an axis appears twice in [{}]", fmt::join(axes, ", ")));
  return result;
}

}  // namespace athanor
