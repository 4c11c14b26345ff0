// Loops over lanes, for the files that are compiled once for each instruction set (Highway's foreach_target).
#if defined(ATHANOR_LOOPS_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATHANOR_LOOPS_LANES_INL_H
#undef ATHANOR_LOOPS_LANES_INL_H
#else
#define ATHANOR_LOOPS_LANES_INL_H
#endif

#include <cstring>
#include <type_traits>
#include <utility>

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

/// A source of a loop over vectors: an array, or one vector for all of them.
template <class T>
class Source {
 public:
  Source(const void* const* src, size_t k, unsigned uniform, size_t lanes)
      : p_(static_cast<const T*>(src[k])), step_((uniform >> k & 1) != 0 ? 0 : lanes) {}
  /// The first vector that is left, or the one behind it.
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d) const {
    return hn::LoadU(d, p_);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> load_next(D d) const {
    return hn::LoadU(d, p_ + step_);
  }
  /// The first n lanes of the last vector.
  template <class D>
  HWY_INLINE hn::Vec<D> load_some(D d, size_t n) const {
    return step_ == 0 ? hn::LoadU(d, p_) : HWY_NAMESPACE::load_some(d, p_, n);
  }
  HWY_INLINE void advance(size_t vectors) { p_ += vectors * step_; }

 private:
  const T* p_;
  size_t step_;  // from vector to vector, in elements
};

// Vector loops: F maps vectors to a vector of the same type.
template <class T, class F, size_t... k>
HWY_INLINE void map_vectors(T* out, const void* const* src, size_t n, unsigned uniform,
                            std::index_sequence<k...>) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  Source<T> s[] = {Source<T>(src, k, uniform, lanes)...};
  for (; n >= 2 * lanes; n -= 2 * lanes, out += 2 * lanes) {
    hn::StoreU(F()(d, s[k].load(d)...), d, out);
    hn::StoreU(F()(d, s[k].load_next(d)...), d, out + lanes);
    (s[k].advance(2), ...);
  }
  if (n >= lanes) {
    hn::StoreU(F()(d, s[k].load(d)...), d, out);
    (s[k].advance(1), ...);
    n -= lanes, out += lanes;
  }
  if (n > 0) store_some(d, F()(d, s[k].load_some(d, n)...), out, n);
}

/// A step of `sources` sources.
template <class T, class F, size_t sources>
void vector_loop(void* dst, const void* const* src, size_t n, unsigned uniform) {
  map_vectors<T, F>(static_cast<T*>(dst), src, n, uniform, std::make_index_sequence<sources>());
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
