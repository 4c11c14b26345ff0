// Transcendental functions of f32 vectors. They are within 4 units in the last place of the real functions
// (measured in tests/backends/loop_kernel_test.cpp) and correct for infinities, NaN, signed zeros and
// subnormal numbers.
#if defined(ATHANOR_LOOPS_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATHANOR_LOOPS_MATH_INL_H
#undef ATHANOR_LOOPS_MATH_INL_H
#else
#define ATHANOR_LOOPS_MATH_INL_H
#endif

#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// ((first * x + rest[0]) * x + rest[1]) ... (Horner)
template <class D, class V, class... C>
HWY_INLINE V polynomial(D d, V x, float first, C... rest) {
  V r = hn::Set(d, first);
  ((r = hn::MulAdd(r, x, hn::Set(d, static_cast<float>(rest)))), ...);
  return r;
}

/// 2^n for integers n in [-126, 127].
template <class D>
HWY_INLINE hn::Vec<D> power_of_two(D d, hn::Vec<hn::RebindToSigned<D>> n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

/// x = n ln 2 + r with |r| <= ln 2 / 2. Returns p in exp(r) = 1 + r + r^2 p (Sollya's minimax polynomial).
template <class D, class V>
HWY_INLINE V exp_parts(D d, V x, V& n, V& r) {
  n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504F)));
  r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  return polynomial(d, r, 1.37805939e-3F, 8.37312452e-3F, 4.16695364e-2F, 1.66664720e-1F, 4.99999851e-1F);
}

/// exp(x) = exp(r) 2^n, with 2^n in two halves, so that results can be subnormal, 0 or infinity.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Beyond these bounds the result is 0 or infinity anyway. Masked scores (-inf) are frequent, and a product
  // that underflows takes a hundred cycles, so these are computed as exp(0). The order of the operands lets a
  // NaN through on x86.
  const auto vanishes = hn::Lt(x, hn::Set(d, -104.0F));
  V n, r;
  const V p = exp_parts(d, hn::IfThenZeroElse(vanishes, hn::Min(hn::Set(d, 105.0F), x)), n, r);
  const V e = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0F)));
  const auto ni = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(ni);
  const V scaled = hn::Mul(hn::Mul(e, power_of_two(d, half)), power_of_two(d, hn::Sub(ni, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(vanishes, scaled));
}

/// log(x): x = 2^e m with m in [2/3, 4/3), and log1p(m - 1) by a polynomial (N. Juffa's logf, 0.9 ulp).
template <class D, class V>
HWY_INLINE V log_of(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto small = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V a = hn::IfThenElse(small, hn::Mul(x, hn::Set(d, 0x1p23F)), x);
  const auto bits = hn::BitCast(di, a);
  const auto e =
      hn::And(hn::Sub(bits, hn::Set(di, 0x3f2aaaab)), hn::Set(di, static_cast<int32_t>(0xff800000)));
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, e)), hn::Set(d, 1.0F));
  const V exponent =
      hn::MulAdd(hn::ConvertTo(d, e), hn::Set(d, 0x1p-23F), hn::IfThenElseZero(small, hn::Set(d, -23.0F)));
  const V s = hn::Mul(f, f);
  V r = hn::MulAdd(hn::Set(d, -0.130310059F), f, hn::Set(d, 0.140869141F));
  const V t = hn::MulAdd(hn::Set(d, -0.121483512F), f, hn::Set(d, 0.139814854F));
  r = hn::MulAdd(r, s, t);
  r = hn::MulAdd(r, f, hn::Set(d, -0.166846126F));
  r = hn::MulAdd(r, f, hn::Set(d, 0.200120345F));
  r = hn::MulAdd(r, f, hn::Set(d, -0.249996200F));
  r = hn::MulAdd(r, f, hn::Set(d, 0.333331972F));
  r = hn::MulAdd(r, f, hn::Set(d, -0.5F));
  r = hn::MulAdd(r, s, f);
  r = hn::MulAdd(exponent, hn::Set(d, 0.693147182F), r);
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  r = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), r);
  r = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), r);
  // x itself for infinity and NaN; zero and negative numbers are handled above
  return hn::IfThenElse(hn::Lt(x, infinity), r, x);
}

/// tanh(x) = m / (m + 2), with m = exp(2 |x|) - 1 = (exp(r) - 1) 2^n + 2^n - 1.
template <class D, class V>
HWY_INLINE V tanh_of(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V a = hn::Abs(x);
  V n, r;
  const V p = exp_parts(d, hn::Min(hn::Set(d, 20.0F), hn::Add(a, a)), n, r);  // from 2 |x| = 20 on, tanh is 1
  const V scale = power_of_two(d, hn::ConvertTo(di, n)), rest = hn::MulAdd(hn::Mul(r, r), p, r);
  const V m = hn::MulAdd(scale, rest, hn::Sub(scale, hn::Set(d, 1.0F)));
  const V t = hn::Div(m, hn::Add(m, hn::Set(d, 2.0F)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(t, x));
}

/// erf(x): N. Juffa's two polynomials, x + x P(x^2) near 0 and 1 - exp(Q(|x|)) beyond (1 ulp).
template <class D, class V>
HWY_INLINE V erf_of(D d, V x) {
  const V t = hn::Abs(x), s = hn::Mul(x, x);
  const V p = polynomial(d, s, -5.96761703e-4F, 4.99119423e-3F, -2.67681349e-2F, 1.12819925e-1F,
                         -3.76125336e-1F, 1.28379166e-1F);
  const V near = hn::MulAdd(p, x, x);
  V r = polynomial(d, t, -1.72853470e-5F, 3.83197126e-4F);
  const V u = polynomial(d, t, -3.88396438e-3F, 2.42546219e-2F);
  r = hn::MulAdd(r, s, u);
  r = hn::MulAdd(r, t, hn::Set(d, -1.06777877e-1F));
  r = hn::MulAdd(r, t, hn::Set(d, -6.34846687e-1F));
  r = hn::MulAdd(r, t, hn::Set(d, -1.28717512e-1F));
  r = hn::NegMulAdd(t, hn::Set(d, 1.0F), hn::Mul(r, t));
  r = hn::IfThenElse(hn::Lt(t, hn::Set(d, 10.0F)), r,
                     hn::Set(d, -105.0F));  // erf is 1; r overflows for large t
  const V far = hn::CopySign(hn::Sub(hn::Set(d, 1.0F), exp_of(d, r)), x);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Gt(t, hn::Set(d, 0.927734375F)), far, near));
}

/// Replaces the lanes of `result` where `mask` is set by f of the lanes of x and y, one by one.
template <class D, class F>
HWY_NOINLINE hn::Vec<D> by_lane(D d, hn::Mask<D> mask, hn::Vec<D> x, hn::Vec<D> y, hn::Vec<D> result, F f) {
  using T = hn::TFromD<D>;
  constexpr size_t most = 64 / sizeof(T);
  alignas(64) T xs[most], ys[most], rs[most], flags[most];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  hn::Store(result, d, rs);
  hn::Store(hn::IfThenElseZero(mask, hn::Set(d, T{1})), d, flags);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    if (flags[i] != 0) rs[i] = f(xs[i], ys[i]);
  return hn::Load(d, rs);
}

/// Highway's sine and cosine are accurate up to 39,000; beyond that, cancellation spoils their range
/// reduction and libm is used.
template <class D, class V>
HWY_INLINE V sin_of(D d, V x) {
  const auto large = hn::Not(hn::Lt(hn::Abs(x), hn::Set(d, 39000.0F)));
  const V r = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Sin(d, x));  // -0 stays -0
  if (HWY_LIKELY(hn::AllFalse(d, large))) return r;
  return by_lane(d, large, x, x, r, [](float a, float) { return std::sin(a); });
}
template <class D, class V>
HWY_INLINE V cos_of(D d, V x) {
  const auto large = hn::Not(hn::Lt(hn::Abs(x), hn::Set(d, 39000.0F)));
  const V r = hn::Cos(d, x);
  if (HWY_LIKELY(hn::AllFalse(d, large))) return r;
  return by_lane(d, large, x, x, r, [](float a, float) { return std::cos(a); });
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
/// (Highway's emulated vectors round an f64 that is too large for f32 to the largest f32, not to infinity.)
template <class D>
HWY_INLINE hn::Vec<D> pow_positive(D d, hn::Vec<D> x, hn::Vec<D> y) {
  return by_lane(d, hn::Eq(x, x), x, y, x, [](float u, float v) { return std::pow(u, v); });
}
#else
/// exp(y log x) in f64, rounded to f32 (also to 0 or infinity); half a vector at a time.
template <class D>
HWY_INLINE hn::Vec<D> pow_positive(D d, hn::Vec<D> x, hn::Vec<D> y) {
  const hn::Half<D> dh;
  const hn::Rebind<double, decltype(dh)> dd;
  const auto limit = hn::Set(dd, 200.0);
  const auto low =
      hn::Mul(hn::Log(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, x))), hn::PromoteTo(dd, hn::LowerHalf(dh, y)));
  const auto high =
      hn::Mul(hn::Log(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, x))), hn::PromoteTo(dd, hn::UpperHalf(dh, y)));
  return hn::Combine(d, hn::DemoteTo(dh, hn::Exp(dd, hn::Max(hn::Neg(limit), hn::Min(high, limit)))),
                     hn::DemoteTo(dh, hn::Exp(dd, hn::Max(hn::Neg(limit), hn::Min(low, limit)))));
}
#endif

template <class D, class V>
HWY_INLINE V pow_of(D d, V x, V y) {
  const V zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  // Zeros, infinities, NaNs and negative bases follow special rules, which libm implements.
  const auto ordinary = hn::And(hn::And(hn::Gt(x, zero), hn::Lt(x, infinity)), hn::Lt(hn::Abs(y), infinity));
  const V r = pow_positive(d, hn::IfThenElse(ordinary, x, hn::Set(d, 1.0F)), hn::IfThenElseZero(ordinary, y));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return r;
  return by_lane(d, hn::Not(ordinary), x, y, r, [](float u, float v) { return std::pow(u, v); });
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // include guard per target
