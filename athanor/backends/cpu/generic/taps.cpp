#include "athanor/backends/cpu/generic/taps.h"

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4)  // the baseline, AVX2 and AVX-512 are worth their compile time
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/generic/taps.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<int32_t>;

void gather(const float* x, const int32_t* index, const float* weight, int64_t taps, int64_t stride,
            int64_t count, float* y) {
  const F32 d;
  const I32 di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t)
      sum = hn::MulAdd(hn::LoadU(d, weight + t * stride + i),
                       hn::GatherIndex(d, x, hn::LoadU(di, index + t * stride + i)), sum);
    hn::StoreU(sum, d, y + i);
  }
  for (; i < count; ++i) {
    float sum = 0;
    for (int64_t t = 0; t < taps; ++t) sum += weight[t * stride + i] * x[index[t * stride + i]];
    y[i] = sum;
  }
}

void correlate(const float* x, const int32_t* index, const float* dy, int64_t taps, int64_t stride,
               int64_t count, float* sums) {
  const F32 d;
  const I32 di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto gradient = hn::LoadU(d, dy + i);
    for (int64_t t = 0; t < taps; ++t) {
      float* to = sums + t * stride + i;
      const auto value = hn::GatherIndex(d, x, hn::LoadU(di, index + t * stride + i));
      hn::StoreU(hn::MulAdd(gradient, value, hn::LoadU(d, to)), d, to);
    }
  }
  for (; i < count; ++i)
    for (int64_t t = 0; t < taps; ++t) sums[t * stride + i] += dy[i] * x[index[t * stride + i]];
}

// combine() for `vectors` neighbouring vectors, whose sums stay in registers.
template <int vectors>
void combine_vectors(const float* const* x, const float* weight, int64_t rows, int64_t i, float* y) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<F32> sums[vectors];
  for (int v = 0; v < vectors; ++v)
    sums[v] = hn::Mul(hn::Set(d, weight[0]), hn::LoadU(d, x[0] + i + v * lanes));
  for (int64_t r = 1; r < rows; ++r) {
    const auto factor = hn::Set(d, weight[r]);
    for (int v = 0; v < vectors; ++v)
      sums[v] = hn::MulAdd(factor, hn::LoadU(d, x[r] + i + v * lanes), sums[v]);
  }
  for (int v = 0; v < vectors; ++v) hn::StoreU(sums[v], d, y + i + v * lanes);
}

void combine(const float* const* x, const float* weight, int64_t rows, int64_t count, float* y) {
  constexpr int many = 8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
  int64_t i = 0;
  for (; i + many * lanes <= count; i += many * lanes) combine_vectors<many>(x, weight, rows, i, y);
  for (; i + lanes <= count; i += lanes) combine_vectors<1>(x, weight, rows, i, y);
  for (; i < count; ++i) {
    float sum = weight[0] * x[0][i];
    for (int64_t r = 1; r < rows; ++r) sum += weight[r] * x[r][i];
    y[i] = sum;
  }
}

void add(float weight, const float* x, int64_t count, float* y) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, weight);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  for (; i < count; ++i) y[i] += weight * x[i];
}

float dot(const float* a, const float* b, int64_t count) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

const TapKernels<float>& kernels() {
  static const TapKernels<float> all{gather, correlate, combine, add, dot};
  return all;
}

}  // namespace athanor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu {

HWY_EXPORT(kernels);

template <>
const TapKernels<float>& tap_kernels() {
  return HWY_DYNAMIC_DISPATCH(kernels)();
}

template <>
const TapKernels<double>& tap_kernels() {
  static const TapKernels<double> plain{
      [](const double* x, const int32_t* index, const double* weight, int64_t taps, int64_t stride,
         int64_t count, double* y) {
        for (int64_t i = 0; i < count; ++i) {
          y[i] = 0;
          for (int64_t t = 0; t < taps; ++t) y[i] += weight[t * stride + i] * x[index[t * stride + i]];
        }
      },
      [](const double* x, const int32_t* index, const double* dy, int64_t taps, int64_t stride, int64_t count,
         double* sums) {
        for (int64_t t = 0; t < taps; ++t)
          for (int64_t i = 0; i < count; ++i) sums[t * stride + i] += dy[i] * x[index[t * stride + i]];
      },
      [](const double* const* x, const double* weight, int64_t rows, int64_t count, double* y) {
        for (int64_t i = 0; i < count; ++i) {
          y[i] = 0;
          for (int64_t r = 0; r < rows; ++r) y[i] += weight[r] * x[r][i];
        }
      },
      [](double weight, const double* x, int64_t count, double* y) {
        for (int64_t i = 0; i < count; ++i) y[i] += weight * x[i];
      },
      [](const double* a, const double* b, int64_t count) {
        double total = 0;
        for (int64_t i = 0; i < count; ++i) total += a[i] * b[i];
        return total;
      }};
  return plain;
}

}  // namespace athanor::cpu
#endif  // HWY_ONCE
