// A dense array in host memory: files are read into it, and tensors are made from it.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "athanor/graph/dtype.h"
#include "athanor/graph/shape.h"

namespace athanor {

/// Row-major elements with their type and shape. A plain value without device or graph.
struct HostArray {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;  // shape.size() * size_of(dtype) of them

  HostArray() = default;
  /// An array of zeros.
  HostArray(DType type, const Shape& extents)
      : dtype(type), shape(extents), bytes(static_cast<size_t>(extents.size()) * size_of(type)) {}

  /// A copy of `values`, which must have as many elements as `shape`.
  template <class T>
  static HostArray of(const Shape& extents, std::span<const T> values) {
    HostArray array(dtype_of<T>, extents);
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    array.bytes.assign(first, first + values.size_bytes());
    return array;
  }

  int64_t size() const { return shape.size(); }
  /// The elements as T, which must be the C++ type of `dtype`.
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// The elements converted to double, whatever the dtype.
std::vector<double> to_doubles(const HostArray& array);
/// `values` converted to `dtype`: rounded for floats; truncated, then wrapped for integers; != 0 for bool.
HostArray from_doubles(DType dtype, const Shape& shape, std::span<const double> values);

}  // namespace athanor
