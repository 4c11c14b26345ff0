// Shapes and strides.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace athanor {

using Ints = std::vector<int64_t>;

/// The largest rank of a tensor. Unfolded convolutions with groups need seven.
constexpr int max_rank = 8;

/// The extents of a tensor, outermost first; {} is a scalar. Extents are >= 0. A small value type that uses
/// no heap.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  Shape(const Ints& dims) : Shape(std::span(dims)) {}
  /// Throws Error(shape) for a rank above max_rank, a negative extent, or more than 2^62 elements.
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  /// The extent of an axis; negative axes count from the end. The axis is not checked: see normalize_axis.
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)]; }
  /// The number of elements; 1 for a scalar.
  int64_t size() const;
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  Ints to_ints() const { return {begin(), end()}; }
  bool operator==(const Shape& other) const;

  /// The same shape with one extent replaced, inserted or removed.
  Shape with(int axis, int64_t extent) const;
  Shape insert(int axis, int64_t extent) const;
  Shape erase(int axis) const;

 private:
  std::array<int64_t, max_rank> dims_{};
  int rank_ = 0;
};

/// "[64, 3, 32, 32]"
std::string to_string(const Shape& shape);

/// Row-major strides in elements.
Ints contiguous_strides(const Shape& shape);

/// NumPy broadcasting; throws Error(shape) naming both shapes when they do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b);

/// `axis` in [-rank, rank) as [0, rank); throws Error(shape) otherwise.
int normalize_axis(int64_t axis, int rank);
/// All axes normalised and sorted; throws an Error for duplicates. {} stays {}.
Ints normalize_axes(const Ints& axes, int rank);

}  // namespace athanor
