// The arithmetic of f32 and f64 vectors that steps share.
#if defined(ATHANOR_LOOPS_ARITHMETIC_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATHANOR_LOOPS_ARITHMETIC_INL_H
#undef ATHANOR_LOOPS_ARITHMETIC_INL_H
#else
#define ATHANOR_LOOPS_ARITHMETIC_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Add {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Sub {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Sub(a, b);
  }
};
struct Mul {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
};
/// a * b + c, rounded once; then a * b - c and c - a * b.
struct Fma {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::MulAdd(a, b, c);
  }
};
struct Fms {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::MulSub(a, b, c);
  }
};
struct Fnma {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::NegMulAdd(a, b, c);
  }
};

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // include guard per target
