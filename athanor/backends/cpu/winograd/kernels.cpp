#include "athanor/backends/cpu/winograd/kernels.h"

// The baseline, AVX2 and AVX-512 are worth their compile time.
#include "athanor/backends/cpu/loops/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/winograd/kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>
//
#include "athanor/backends/cpu/loops/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::winograd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most as many lanes as a block of channels has: 16 with AVX-512, else 8.
#if HWY_TARGET == HWY_AVX3
constexpr int most_lanes = 16, rows_of_tiles = 12, rows_of_channels = 8;
#else
constexpr int most_lanes = 8, rows_of_tiles = 6, rows_of_channels = 4;
#endif
using Tag = hn::CappedTag<float, most_lanes>;
using Vector = hn::Vec<Tag>;

HWY_INLINE Vector load(const float* from) { return hn::LoadU(Tag(), from); }
HWY_INLINE void store(Vector value, float* to) { hn::StoreU(value, Tag(), to); }
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
using Halves = hn::Rebind<uint16_t, Tag>;
HWY_INLINE Vector load(const bf16* from) {
  return loops::HWY_NAMESPACE::widened_bf16(Tag(), hn::LoadU(Halves(), &from->bits));
}
HWY_INLINE void store(Vector value, bf16* to) {
  hn::StoreU(loops::HWY_NAMESPACE::narrowed_bf16(Tag(), value), Halves(), &to->bits);
}
#else
HWY_INLINE Vector load(const bf16* from) {
  HWY_ALIGN float values[most_lanes];
  for (size_t i = 0; i < hn::Lanes(Tag()); ++i) values[i] = static_cast<float>(from[i]);
  return hn::Load(Tag(), values);
}
HWY_INLINE void store(Vector value, bf16* to) {
  HWY_ALIGN float values[most_lanes];
  hn::Store(value, Tag(), values);
  for (size_t i = 0; i < hn::Lanes(Tag()); ++i) to[i] = bf16(values[i]);
}
#endif

// Products with the paper's matrices: the transpose of B, then G, A and their transposes. Each is for one
// column of a tile, whose elements are `step` vectors apart.
HWY_INLINE void by_b(const Vector* x, int step, Vector* y, int to_step) {
  const Tag d;
  const Vector two = hn::Set(d, 2.0F), four = hn::Set(d, 4.0F), five = hn::Set(d, 5.0F);
  const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step],
               x5 = x[5 * step];
  const Vector even = hn::NegMulAdd(four, x2, x4), odd = hn::NegMulAdd(four, x1, x3);
  const Vector inner = hn::Sub(x4, x2), outer = hn::Mul(two, hn::Sub(x3, x1));
  y[0] = hn::MulAdd(four, x0, hn::NegMulAdd(five, x2, x4));
  y[to_step] = hn::Add(even, odd);
  y[2 * to_step] = hn::Sub(even, odd);
  y[3 * to_step] = hn::Add(inner, outer);
  y[4 * to_step] = hn::Sub(inner, outer);
  y[5 * to_step] = hn::MulAdd(four, x1, hn::NegMulAdd(five, x3, x5));
}

HWY_INLINE void by_g(const Vector* x, int step, Vector* y, int to_step) {
  const Tag d;
  const Vector sixth = hn::Set(d, 1.0F / 6), twelfth = hn::Set(d, 1.0F / 12), small = hn::Set(d, 1.0F / 24);
  const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step];
  const Vector sum = hn::Mul(sixth, hn::Add(x0, x2)), middle = hn::Mul(sixth, x1);
  const Vector wide = hn::MulAdd(sixth, x2, hn::Mul(small, x0)), half = hn::Mul(twelfth, x1);
  y[0] = hn::Mul(hn::Set(d, 0.25F), x0);
  y[to_step] = hn::Neg(hn::Add(sum, middle));
  y[2 * to_step] = hn::Sub(middle, sum);
  y[3 * to_step] = hn::Add(wide, half);
  y[4 * to_step] = hn::Sub(wide, half);
  y[5 * to_step] = x2;
}

HWY_INLINE void by_transposed_g(const Vector* x, int step, Vector* y, int to_step) {
  const Tag d;
  const Vector sixth = hn::Set(d, 1.0F / 6), twelfth = hn::Set(d, 1.0F / 12), small = hn::Set(d, 1.0F / 24);
  const Vector x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step];
  const Vector inner = hn::Add(x1, x2), outer = hn::Add(x3, x4);
  y[0] = hn::MulAdd(hn::Set(d, 0.25F), x[0], hn::NegMulAdd(sixth, inner, hn::Mul(small, outer)));
  y[to_step] = hn::MulAdd(sixth, hn::Sub(x2, x1), hn::Mul(twelfth, hn::Sub(x3, x4)));
  y[2 * to_step] = hn::MulAdd(sixth, hn::Sub(outer, inner), x[5 * step]);
}

HWY_INLINE void by_transposed_a(const Vector* x, int step, Vector* y, int to_step) {
  const Tag d;
  const Vector two = hn::Set(d, 2.0F), four = hn::Set(d, 4.0F), eight = hn::Set(d, 8.0F);
  const Vector x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step];
  const Vector inner = hn::Add(x1, x2), outer = hn::Add(x3, x4), inner_odd = hn::Sub(x1, x2),
               outer_odd = hn::Sub(x3, x4);
  y[0] = hn::Add(x[0], hn::Add(inner, outer));
  y[to_step] = hn::MulAdd(two, outer_odd, inner_odd);
  y[2 * to_step] = hn::MulAdd(four, outer, inner);
  y[3 * to_step] = hn::Add(hn::MulAdd(eight, outer_odd, inner_odd), x[5 * step]);
}

HWY_INLINE void by_a(const Vector* x, int step, Vector* y, int to_step) {
  const Tag d;
  const Vector two = hn::Set(d, 2.0F), four = hn::Set(d, 4.0F), eight = hn::Set(d, 8.0F);
  const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
  const Vector even = hn::Add(x0, x2), odd = hn::Add(x1, x3);
  const Vector wide = hn::MulAdd(four, x2, x0), wide_odd = hn::MulAdd(eight, x3, hn::Mul(two, x1));
  y[0] = x0;
  y[to_step] = hn::Add(even, odd);
  y[2 * to_step] = hn::Sub(even, odd);
  y[3 * to_step] = hn::Add(wide, wide_odd);
  y[4 * to_step] = hn::Sub(wide, wide_odd);
  y[5 * to_step] = x3;
}

// Loads a square of extent x extent pixels, with zeros outside the plane.
template <int extent, class T>
HWY_INLINE void load_square(const T* plane, const Plane& size, int64_t top, int64_t left, Vector* to) {
  const Tag d;
  const bool inside = top >= 0 && left >= 0 && top + extent <= size.height && left + extent <= size.width;
  const T* first = plane + (top * size.width + left) * size.block;
  for (int i = 0; i < extent; ++i)
    for (int j = 0; j < extent; ++j) {
      const bool there =
          inside || (top + i >= 0 && top + i < size.height && left + j >= 0 && left + j < size.width);
      to[i * extent + j] = there ? load(first + (i * size.width + j) * size.block) : hn::Zero(d);
    }
}

/// Multiplies a square of pixels from both sides, which results in 6 x 6 points.
template <int extent, void (*multiply)(const Vector*, int, Vector*, int), class T>
HWY_INLINE void transform_square(const T* plane, const Plane& size, int64_t top, int64_t left, float* to,
                                 int64_t point_stride) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < size.block; c += lanes) {
    Vector pixels[extent * extent], half[6 * extent], row[6];
    load_square<extent>(plane + c, size, top, left, pixels);
    for (int j = 0; j < extent; ++j) multiply(pixels + j, extent, half + j, extent);
    for (int i = 0; i < 6; ++i) {
      multiply(half + extent * i, 1, row, 1);
      for (int j = 0; j < 6; ++j) hn::StoreU(row[j], d, to + (6 * i + j) * point_stride + c);
    }
  }
}

template <class T>
void transform_patch(const T* plane, const Plane& size, int64_t top, int64_t left, float* to,
                     int64_t point_stride) {
  transform_square<6, by_b>(plane, size, top, left, to, point_stride);
}

template <class T>
void transform_gradient(const T* plane, const Plane& size, int64_t top, int64_t left, float* to,
                        int64_t point_stride) {
  transform_square<4, by_a>(plane, size, top, left, to, point_stride);
}

template <class T>
void finish_tile(const float* from, int64_t point_stride, T* plane, const Plane& size, int64_t top,
                 int64_t left, const T* bias, bool relu) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t rows = HWY_MIN(int64_t{4}, size.height - top),
                columns = HWY_MIN(int64_t{4}, size.width - left);
  for (int64_t c = 0; c < size.block; c += lanes) {
    Vector column[6], half[24], row[4];
    for (int j = 0; j < 6; ++j) {
      for (int i = 0; i < 6; ++i) column[i] = hn::LoadU(d, from + (6 * i + j) * point_stride + c);
      by_transposed_a(column, 1, half + j, 6);
    }
    const Vector added = bias == nullptr ? hn::Zero(d) : load(bias + c);
    T* to = plane + (top * size.width + left) * size.block + c;
    for (int64_t i = 0; i < rows; ++i) {
      by_transposed_a(half + 6 * i, 1, row, 1);
      for (int64_t j = 0; j < columns; ++j) {
        Vector value = hn::Add(row[j], added);
        // A NaN stays.
        if (relu) value = hn::IfThenElse(hn::Lt(value, hn::Zero(d)), hn::Zero(d), value);
        store(value, to + (i * size.width + j) * size.block);
      }
    }
  }
}

template <class T>
void transform_weights(const T* weights, const WeightStrides& strides, float* to, int64_t point_stride) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector taps[9], half[18], row[6];
  for (int tap = 0; tap < 9; ++tap) {
    HWY_ALIGN T values[most_lanes];
    for (int64_t o = 0; o < lanes; ++o)
      values[o] = weights[o * strides.o + tap / 3 * strides.row + tap % 3 * strides.column];
    taps[tap] = load(values);
  }
  for (int j = 0; j < 3; ++j) by_g(taps + j, 3, half + j, 3);
  for (int i = 0; i < 6; ++i) {
    by_g(half + 3 * i, 1, row, 1);
    for (int j = 0; j < 6; ++j) hn::StoreU(row[j], d, to + (6 * i + j) * point_stride);
  }
}

template <class T>
void finish_weights(const float* from, int64_t point_stride, int64_t parts, int64_t part_stride, T* weights,
                    const WeightStrides& strides) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector column[6], half[18], row[3];
  for (int j = 0; j < 6; ++j) {
    for (int i = 0; i < 6; ++i) {
      const float* point = from + (6 * i + j) * point_stride;
      column[i] = hn::LoadU(d, point);
      for (int64_t part = 1; part < parts; ++part)
        column[i] = hn::Add(column[i], hn::LoadU(d, point + part * part_stride));
    }
    by_transposed_g(column, 1, half + j, 6);
  }
  for (int i = 0; i < 3; ++i) {
    by_transposed_g(half + 6 * i, 1, row, 1);
    for (int j = 0; j < 3; ++j) {
      HWY_ALIGN T values[most_lanes];
      store(row[j], values);
      for (int64_t o = 0; o < lanes; ++o)
        weights[o * strides.o + i * strides.row + j * strides.column] = values[o];
    }
  }
}

template <int rows, int vectors>
void multiply(const Product& p) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector sums[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      sums[i][v] = p.add ? hn::LoadU(d, p.c + i * p.c_stride + v * lanes) : hn::Zero(d);
  const float *a = p.a, *b = p.b;
  for (int64_t k = 0; k < p.k; ++k, a += p.a_k, b += p.b_stride) {
    Vector right[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) right[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Vector left = hn::Set(d, a[i * p.a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[i][v] = hn::MulAdd(left, right[v], sums[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) hn::StoreU(sums[i][v], d, p.c + i * p.c_stride + v * lanes);
}

template <int rows>
void multiply_rows(const Product& p, bool two_vectors) {
  two_vectors ? multiply<rows, 2>(p) : multiply<rows, 1>(p);
}

template <class T>
Transforms<T> transforms_of_target() {
  return {transform_patch<T>, transform_gradient<T>, finish_tile<T>, transform_weights<T>, finish_weights<T>};
}

Kernels kernels_of_target() {
  return {.lanes = static_cast<int64_t>(hn::Lanes(Tag())),
          .tile_rows = rows_of_tiles,
          .channel_rows = rows_of_channels,
          .multiply_tiles = multiply_rows<rows_of_tiles>,
          .multiply_channels = multiply_rows<rows_of_channels>,
          .of_f32 = transforms_of_target<float>(),
          .of_bf16 = transforms_of_target<bf16>()};
}

}  // namespace athanor::cpu::winograd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu::winograd {

HWY_EXPORT(kernels_of_target);

const Kernels& kernels() {
  static const Kernels all = HWY_DYNAMIC_DISPATCH(kernels_of_target)();
  return all;
}

}  // namespace athanor::cpu::winograd
#endif  // HWY_ONCE
