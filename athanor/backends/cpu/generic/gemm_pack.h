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

using Four = float __attribute__((vector_size(16)));

inline Four load4(const float* from) {
  Four v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline Four load4(const bf16* from) {
  using Bits = uint32_t __attribute__((vector_size(16)));
  using Narrow = uint16_t __attribute__((vector_size(8)));
  Narrow bits;
  std::memcpy(&bits, from, sizeof bits);
  return reinterpret_cast<Four>(__builtin_convertvector(bits, Bits) << 16);
}

// Transposes 4 vectors, contiguous along their depth, to 4 rows of a panel.
template <class T>
void transpose4(const T* from, int64_t stride, float* to, int64_t width) {
  Four v[4];
  for (int64_t i = 0; i < 4; ++i) v[i] = load4(from + i * stride);
  const Four low01 = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5),
             low23 = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5),
             high01 = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7),
             high23 = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  const Four rows[] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                       __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                       __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                       __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int64_t p = 0; p < 4; ++p) std::memcpy(to + p * width, &rows[p], sizeof(Four));
}

// The same for 2 vectors.
template <class T>
void transpose2(const T* from, int64_t stride, float* to, int64_t width) {
  const Four a = load4(from), b = load4(from + stride);
  const Four rows[] = {__builtin_shufflevector(a, b, 0, 4, 1, 5), __builtin_shufflevector(a, b, 2, 6, 3, 7)};
  for (int64_t p = 0; p < 4; ++p)
    std::memcpy(to + p * width, reinterpret_cast<const float*>(rows) + 2 * p, 2 * sizeof(float));
}

// Packs vectors that are contiguous along their depth, one panel after the other.
template <class T, class Width>
void along_depth(const Vectors<T>& v, int64_t panels, Width width, float* to) {
  for (int64_t panel = 0; panel < panels; ++panel) {
    const T* from = v.from + panel * width * v.stride;
    int64_t p = 0;
    for (; p + 4 <= v.depth; p += 4, from += 4, to += 4 * width) {
      int64_t i = 0;
      for (; i + 4 <= width; i += 4) transpose4(from + i * v.stride, v.stride, to + i, width);
      for (; i + 2 <= width; i += 2) transpose2(from + i * v.stride, v.stride, to + i, width);
      for (; i < width; ++i)
        for (int64_t q = 0; q < 4; ++q) to[q * width + i] = load(from[i * v.stride + q]);
    }
    for (; p < v.depth; ++p, ++from, to += width)
      for (int64_t i = 0; i < width; ++i) to[i] = load(from[i * v.stride]);
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
  if constexpr (turns || std::is_same_v<T, double>) {
    const int64_t panels = v.count / width;
    const bool columns = v.stride == 1, rows = v.depth_stride == 1 && turns;
    if (columns || rows) {
      const auto pack_panels = [&](auto constant) {
        if (columns) return packing::side_by_side(v, panels, constant, to);
        if constexpr (turns) packing::along_depth(v, panels, constant, to);
      };
      packing::with_constant<4, 6, 8, 12, 16, 32>(width, pack_panels);  // widths of micro kernels' tiles
      v.from += panels * width * v.stride;
      v.count -= panels * width;
      to += panels * width * v.depth;
    }
  }
  packing::one_by_one(v, width, to);
}

}  // namespace athanor::cpu
