#include "athanor/backends/cpu/generic/gemm_pack.h"

#include <algorithm>

#include "athanor/backends/cpu/generic/product_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/generic/gemm_pack.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::packing::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
template <class T>
bool turn_matrix(const Matrix<T>&, float*, int64_t) {
  return false;
}
#else

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_row(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_row(D d, const bf16* from) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::Rebind<uint32_t, D> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}

// Stores the blocks of 4 elements, each `between` elements after the one before.
template <class D>
HWY_INLINE void store_blocks(D d, hn::Vec<D> v, float* to, int64_t between) {
  constexpr size_t lanes = hn::MaxLanes(D());
  if constexpr (lanes == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, v), to, between);
    store_blocks(half, hn::UpperHalf(half, v), to + static_cast<int64_t>(lanes / 8) * between, between);
  }
}

// With vectors of D, for at least as many columns as they have elements, and at least 4 rows.
template <class D, class T>
HWY_INLINE void turn_with(D d, const Matrix<T>& m, float* HWY_RESTRICT to, int64_t stride) {
  const hn::RepartitionToWide<D> pairs;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  // The last columns and rows overlap those before them if need be.
  for (int64_t next_column = 0; next_column < m.columns; next_column += lanes)
    for (int64_t next_row = 0; next_row < m.rows; next_row += 4) {
      const int64_t column = std::min(next_column, m.columns - lanes), row = std::min(next_row, m.rows - 4);
      const T* const at = m.at + row * m.stride + column;
      const auto a = load_row(d, at), b = load_row(d, at + m.stride), c = load_row(d, at + 2 * m.stride),
                 e = load_row(d, at + 3 * m.stride);
      const auto low_ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
                 low_ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
                 high_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
                 high_ce = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
      // Columns i, i + 4, i + 8, ... of the four rows.
      const auto store = [&](auto columns, int64_t i) {
        store_blocks(d, hn::BitCast(d, columns), to + (column + i) * stride + row, 4 * stride);
      };
      store(hn::InterleaveLower(pairs, low_ab, low_ce), 0);
      store(hn::InterleaveUpper(pairs, low_ab, low_ce), 1);
      store(hn::InterleaveLower(pairs, high_ab, high_ce), 2);
      store(hn::InterleaveUpper(pairs, high_ab, high_ce), 3);
    }
}

template <class T>
bool turn_matrix(const Matrix<T>& m, float* to, int64_t stride) {
  const hn::ScalableTag<float> all;
  if (m.rows < 4 || m.columns < 4) return false;
  if (m.columns >= static_cast<int64_t>(hn::Lanes(all)))
    turn_with(all, m, to, stride);
  else
    turn_with(hn::FixedTag<float, 4>(), m, to, stride);
  return true;
}
#endif

bool turn_f32(const Matrix<float>& m, float* to, int64_t stride) { return turn_matrix(m, to, stride); }
bool turn_bf16(const Matrix<bf16>& m, float* to, int64_t stride) { return turn_matrix(m, to, stride); }

}  // namespace athanor::cpu::packing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu::packing {

HWY_EXPORT(turn_f32);
HWY_EXPORT(turn_bf16);

bool turn(const Matrix<float>& m, float* to, int64_t stride) {
  return HWY_DYNAMIC_DISPATCH(turn_f32)(m, to, stride);
}
bool turn(const Matrix<bf16>& m, float* to, int64_t stride) {
  return HWY_DYNAMIC_DISPATCH(turn_bf16)(m, to, stride);
}

}  // namespace athanor::cpu::packing
#endif
