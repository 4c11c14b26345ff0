// Copies of a matrix's rows or columns, in the order in which the innermost loop of a product reads them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "athanor/backends/cpu/generic/numeric.h"

namespace athanor::cpu {

/// A part of a matrix as packing sees it: `count` vectors of `depth` elements. Element p of vector i is at
/// from[i * stride + p * depth_stride].
template <class T>
struct Vectors {
  const T* from;
  int64_t count, stride, depth, depth_stride;
};

namespace packing {

// The number of panels that are packed at a time if their vectors lie side by side.
constexpr int64_t panels_together = 8;

// Calls body with a constant that is equal to width if it is one of `widths`, else with width.
template <int64_t... widths, class Body>
void with_constant(int64_t width, Body&& body) {
  const auto is = [&](auto constant) {
    if (width != constant) return false;
    body(constant);
    return true;
  };
  if (!(is(std::integral_constant<int64_t, widths>()) || ...)) body(width);
}

/// Rows of `columns` elements that follow each other; `stride` elements from row to row.
template <class T>
struct Matrix {
  const T* at;
  int64_t rows, columns, stride;
};

/// Writes the matrix's columns as rows, `stride` elements apart. With fewer than 4 rows or columns, or
/// without vectors of 4 floats, it writes nothing and returns false.
bool turn(const Matrix<float>& m, float* to, int64_t stride);
bool turn(const Matrix<bf16>& m, float* to, int64_t stride);

// Packs vectors that are contiguous along their depth, one panel after the other.
template <class T>
void along_depth(const Vectors<T>& v, int64_t width, float* to) {
  for (int64_t first = 0; first < v.count; first += width, to += width * v.depth) {
    const int64_t used = std::min(width, v.count - first);
    const T* from = v.from + first * v.stride;
    if (used < width) std::fill_n(to, width * v.depth, 0.0F);
    if (turn({from, used, v.depth, v.stride}, to, width)) continue;
    for (int64_t i = 0; i < used; ++i)
      for (int64_t p = 0; p < v.depth; ++p) to[p * width + i] = load(from[i * v.stride + p]);
  }
}

// Packs vectors that lie side by side, some panels at a time, so that longer runs of memory are read. The
// next run is a stride away, mostly in another page, so processors do not prefetch it by themselves.
template <class T, class Width>
void side_by_side(const Vectors<T>& v, int64_t panels, Width width, Acc<T>* to) {
  constexpr int64_t ahead = 8, line = 64 / sizeof(T);
  for (int64_t first = 0; first < panels; first += panels_together) {
    const int64_t some = std::min(panels_together, panels - first);
    for (int64_t p = 0; p < v.depth; ++p) {
      const T* from = v.from + p * v.depth_stride + first * width;
      Acc<T>* row = to + (first * v.depth + p) * width;
      if (p + ahead < v.depth)
        for (int64_t i = 0; i < some * width; i += line)
          __builtin_prefetch(from + ahead * v.depth_stride + i);
      for (int64_t panel = 0; panel < some; ++panel, from += width, row += v.depth * width)
        if constexpr (std::is_same_v<T, Acc<T>>)
          std::memcpy(row, from, static_cast<size_t>(width) * sizeof(T));
        else
          for (int64_t i = 0; i < width; ++i) row[i] = load(from[i]);
    }
  }
}

template <class T>
void one_by_one(const Vectors<T>& v, int64_t width, Acc<T>* to) {
  for (int64_t first = 0; first < v.count; first += width, to += v.depth * width) {
    const int64_t used = std::min(width, v.count - first);
    const T* from = v.from + first * v.stride;
    if (used < width) std::fill(to, to + v.depth * width, Acc<T>{0});
    if (v.stride == 1) {
      for (int64_t p = 0; p < v.depth; ++p)
        for (int64_t i = 0; i < used; ++i) to[p * width + i] = load(from[p * v.depth_stride + i]);
    } else {
      for (int64_t i = 0; i < used; ++i)
        for (int64_t p = 0; p < v.depth; ++p)
          to[p * width + i] = load(from[i * v.stride + p * v.depth_stride]);
    }
  }
}

}  // namespace packing

/// Copies the vectors as panels of `width` vectors, each [depth, width], with zeros beyond the last vector.
template <class T>
void pack(Vectors<T> v, int64_t width, Acc<T>* to) {
  constexpr bool turns = std::is_same_v<T, float> || std::is_same_v<T, bf16>;
  if constexpr (turns)
    if (v.depth_stride == 1 && v.stride != 1) return packing::along_depth(v, width, to);
  if constexpr (turns || std::is_same_v<T, double>)
    if (v.stride == 1) {
      const int64_t panels = v.count / width;
      packing::with_constant<4, 6, 8, 12, 16, 32>(  // widths of micro kernels' tiles
          width, [&](auto constant) { packing::side_by_side(v, panels, constant, to); });
      v.from += panels * width;
      v.count -= panels * width;
      to += panels * width * v.depth;
    }
  packing::one_by_one(v, width, to);
}

}  // namespace athanor::cpu
