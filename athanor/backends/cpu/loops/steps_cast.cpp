#include <cmath>
#include <type_traits>

#include "athanor/backends/cpu/loops/tables.h"
#include "athanor/backends/cpu/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/steps_cast.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace {

/// Floats to integers truncate, then wrap. NaN and values that 64 bits cannot hold become the lowest i64 (as
/// x86 converts them).
template <class Out, class In>
struct Cast {
  HWY_INLINE Out operator()(In a) const {
    if constexpr (std::is_floating_point_v<In> && std::is_integral_v<Out>) {
      const bool fits = a >= In{-0x1p63} && a < In{0x1p63};
      return static_cast<Out>(fits ? static_cast<int64_t>(a) : std::numeric_limits<int64_t>::min());
    } else {
      return static_cast<Out>(a);
    }
  }
};
template <class In>
struct ToBool {
  HWY_INLINE uint8_t operator()(In a) const { return a != 0; }
};

template <class Narrow>
struct FromNarrow {
  float operator()(Narrow a) const { return static_cast<float>(a); }
};
template <class Narrow>
struct ToNarrow {
  Narrow operator()(float a) const { return Narrow(a); }
};

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
void from_bf16(void* dst, const void* const* src, size_t n, unsigned) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const size_t lanes = hn::Lanes(d);
  const auto* a = static_cast<const uint16_t*>(src[0]);
  auto* out = static_cast<float*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(widened_bf16(d, hn::LoadU(dh, a + i)), d, out + i);
  if (i < n) store_some(d, widened_bf16(d, load_some(dh, a + i, n - i)), out + i, n - i);
}
void to_bf16(void* dst, const void* const* src, size_t n, unsigned) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const size_t lanes = hn::Lanes(d);
  const auto* a = static_cast<const float*>(src[0]);
  auto* out = static_cast<uint16_t*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(narrowed_bf16(d, hn::LoadU(d, a + i)), dh, out + i);
  if (i < n) store_some(dh, narrowed_bf16(d, load_some(d, a + i, n - i)), out + i, n - i);
}
void from_f16(void* dst, const void* const* src, size_t n, unsigned) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  const auto* a = static_cast<const uint16_t*>(src[0]);
  auto* out = static_cast<float*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(du, a + i))), d, out + i);
  if (i < n) store_some(d, hn::PromoteTo(d, hn::BitCast(dh, load_some(du, a + i, n - i))), out + i, n - i);
}
void to_f16(void* dst, const void* const* src, size_t n, unsigned) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  const auto* a = static_cast<const float*>(src[0]);
  auto* out = static_cast<uint16_t*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::BitCast(du, hn::DemoteTo(dh, hn::LoadU(d, a + i))), du, out + i);
  if (i < n) store_some(du, hn::BitCast(du, hn::DemoteTo(dh, load_some(d, a + i, n - i))), out + i, n - i);
}
#else
void from_bf16(void* dst, const void* const* src, size_t n, unsigned u) {
  scalar_loop1<float, bf16, FromNarrow<bf16>>(dst, src, n, u);
}
void to_bf16(void* dst, const void* const* src, size_t n, unsigned u) {
  scalar_loop1<bf16, float, ToNarrow<bf16>>(dst, src, n, u);
}
void from_f16(void* dst, const void* const* src, size_t n, unsigned u) {
  scalar_loop1<float, f16, FromNarrow<f16>>(dst, src, n, u);
}
void to_f16(void* dst, const void* const* src, size_t n, unsigned u) {
  scalar_loop1<f16, float, ToNarrow<f16>>(dst, src, n, u);
}
#endif

template <class In>
StepFn cast_from(DType out) {
  switch (out) {
    case DType::f64:
      return scalar_loop1<double, In, Cast<double, In>>;
    case DType::f32:
      return scalar_loop1<float, In, Cast<float, In>>;
    case DType::i64:
      return scalar_loop1<int64_t, In, Cast<int64_t, In>>;
    case DType::i32:
      return scalar_loop1<int32_t, In, Cast<int32_t, In>>;
    case DType::i8:
      return scalar_loop1<int8_t, In, Cast<int8_t, In>>;
    case DType::u8:
      return scalar_loop1<uint8_t, In, Cast<uint8_t, In>>;
    case DType::b8:
      return scalar_loop1<uint8_t, In, ToBool<In>>;
    default:
      return nullptr;
  }
}

}  // namespace

StepFn cast(DType in, DType out) {
  if (out == DType::f16) return in == DType::f32 ? to_f16 : nullptr;
  if (out == DType::bf16) return in == DType::f32 ? to_bf16 : nullptr;
  if (out == DType::f8e4m3) return in == DType::f32 ? scalar_loop1<f8e4m3, float, ToNarrow<f8e4m3>> : nullptr;
  if (out == DType::f8e5m2) return in == DType::f32 ? scalar_loop1<f8e5m2, float, ToNarrow<f8e5m2>> : nullptr;
  switch (in) {
    case DType::f64:
      return cast_from<double>(out);
    case DType::f32:
      return cast_from<float>(out);
    case DType::f16:
      return out == DType::f32 ? from_f16 : nullptr;
    case DType::bf16:
      return out == DType::f32 ? from_bf16 : nullptr;
    case DType::f8e4m3:
      return out == DType::f32 ? scalar_loop1<float, f8e4m3, FromNarrow<f8e4m3>> : nullptr;
    case DType::f8e5m2:
      return out == DType::f32 ? scalar_loop1<float, f8e5m2, FromNarrow<f8e5m2>> : nullptr;
    case DType::i64:
      return cast_from<int64_t>(out);
    case DType::i32:
      return cast_from<int32_t>(out);
    case DType::i8:
      return cast_from<int8_t>(out);
    case DType::u8:
    case DType::b8:
      break;
  }
  return cast_from<uint8_t>(out);
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(cast);
StepFn cast_step(DType in, DType out) { return HWY_DYNAMIC_DISPATCH(cast)(in, out); }
}  // namespace athanor::loops
#endif
