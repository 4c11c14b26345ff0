// Loops over lanes, for the files that are compiled once for each instruction set (Highway's foreach_target).
#if defined(ATHANOR_LOOPS_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATHANOR_LOOPS_LANES_INL_H
#undef ATHANOR_LOOPS_LANES_INL_H
#else
#define ATHANOR_LOOPS_LANES_INL_H
#endif

#include <cstring>
#include <tuple>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Loads the first n lanes (the others are 0) and touches no memory after them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_some(D d, const T* p, size_t n) {
#if HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  alignas(64) T lanes[64 / sizeof(T)] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return hn::Load(d, lanes);
#endif
}

/// Stores the first n lanes.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_some(D d, hn::Vec<D> v, T* p, size_t n) {
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  alignas(64) T lanes[64 / sizeof(T)];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
#endif
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
// bf16 is the upper half of an f32, rounded to nearest even; NaN stays NaN.
template <class D, class V>
HWY_INLINE hn::Vec<D> widened_bf16(D d, V halves) {
  const hn::Rebind<uint32_t, D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, halves)));
}
template <class D>
HWY_INLINE auto narrowed_bf16(D d, hn::Vec<D> value) {
  const hn::Rebind<uint32_t, D> du;
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::BitCast(du, value), upper = hn::ShiftRight<16>(bits);
  const auto half_or_even = hn::Add(hn::Set(du, 0x7fff), hn::And(upper, hn::Set(du, 1)));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, half_or_even));
  const auto quiet = hn::Or(upper, hn::Set(du, 0x40));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
  return hn::DemoteTo(dh, hn::BitCast(di, hn::IfThenElse(is_nan, quiet, rounded)));
}
#endif

/// A source: an array, or one value for every lane.
template <class T>
struct Source {
  const T* p;
  size_t mask;  // 0 keeps every index at 0
  Source(const void* const* src, int k, unsigned uniform)
      : p(static_cast<const T*>(src[k])), mask((uniform >> k & 1) ? 0 : ~size_t{0}) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, size_t i) const {
    return hn::LoadU(d, p + (i & mask));
  }
  template <class D>
  HWY_INLINE hn::Vec<D> load_some(D d, size_t i, size_t n) const {
    return mask == 0 ? hn::LoadU(d, p) : HWY_NAMESPACE::load_some(d, p + i, n);
  }
};

/// Maximum and minimum that are NaN if either is (x86's instructions return the second operand then).
template <class D, class V>
HWY_INLINE V max_of(D, V a, V b) {
  if constexpr (!hwy::IsFloat<hn::TFromD<D>>())
    return hn::Max(a, b);
  else
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, hn::Max(a, b)));
}
template <class D, class V>
HWY_INLINE V min_of(D, V a, V b) {
  if constexpr (!hwy::IsFloat<hn::TFromD<D>>())
    return hn::Min(a, b);
  else
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, hn::Min(a, b)));
}

/// A source of which it is known whether it is one value for every lane.
template <class T, bool one_value>
struct KnownSource {
  const T* p;
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, size_t i) const {
    return hn::LoadU(d, one_value ? p : p + i);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> load_some(D d, size_t i, size_t n) const {
    return one_value ? hn::LoadU(d, p) : HWY_NAMESPACE::load_some(d, p + i, n);
  }
};

// Vector loops: F maps vectors to a vector of the same type.
template <class F, class T, class... Sources>
HWY_INLINE void map_vectors(T* out, size_t n, const Sources&... sources) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
#pragma GCC unroll 4
  for (; i + lanes <= n; i += lanes) hn::StoreU(F()(d, sources.load(d, i)...), d, out + i);
  if (i < n) store_some(d, F()(d, sources.load_some(d, i, n - i)...), out + i, n - i);
}

// The same for the sources of a step. Each set of uniform ones has a loop of its own: `known` says it of the
// first ones.
template <class F, class T, size_t sources, bool... known>
void map_sources(T* out, const void* const* src, size_t n, unsigned uniform) {
  if constexpr (sizeof...(known) == sources) {
    size_t k = 0;
    const auto source = [&]<bool one_value>(std::bool_constant<one_value>) {
      return KnownSource<T, one_value>{static_cast<const T*>(src[k++])};
    };
    const std::tuple all{source(std::bool_constant<known>())...};  // in this order, because of the braces
    std::apply([&](const auto&... each) { map_vectors<F>(out, n, each...); }, all);
  } else if ((uniform >> sizeof...(known) & 1) != 0) {
    map_sources<F, T, sources, known..., true>(out, src, n, uniform);
  } else {
    map_sources<F, T, sources, known..., false>(out, src, n, uniform);
  }
}

template <class T, class F>
void vector_loop1(void* dst, const void* const* src, size_t n, unsigned) {
  map_sources<F, T, 1, false>(static_cast<T*>(dst), src, n, 0);
}
template <class T, class F>
void vector_loop2(void* dst, const void* const* src, size_t n, unsigned uniform) {
  map_sources<F, T, 2>(static_cast<T*>(dst), src, n, uniform);
}
template <class T, class F>
void vector_loop3(void* dst, const void* const* src, size_t n, unsigned uniform) {
  map_sources<F, T, 3>(static_cast<T*>(dst), src, n, uniform);
}

// Scalar loops, which the compiler vectorises if it can: F maps values.
template <class Out, class In, class F>
void scalar_loop1(void* dst, const void* const* src, size_t n, unsigned) {
  const auto* a = static_cast<const In*>(src[0]);
  auto* out = static_cast<Out*>(dst);
  for (size_t i = 0; i < n; ++i) out[i] = F()(a[i]);
}

template <class T, class F>
void scalar_loop2(void* dst, const void* const* src, size_t n, unsigned uniform) {
  const auto* a = static_cast<const T*>(src[0]);
  const auto* b = static_cast<const T*>(src[1]);
  auto* out = static_cast<T*>(dst);
  if (uniform == 1) {
    const T x = *a;
    for (size_t i = 0; i < n; ++i) out[i] = F()(x, b[i]);
  } else if (uniform == 2) {
    const T y = *b;
    for (size_t i = 0; i < n; ++i) out[i] = F()(a[i], y);
  } else {
    for (size_t i = 0; i < n; ++i) out[i] = F()(a[i], b[i]);
  }
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // include guard per target
