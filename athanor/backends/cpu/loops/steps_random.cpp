#include "athanor/backends/cpu/loops/tables.h"
#include "athanor/backends/cpu/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/steps_random.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace {

using D64 = hn::ScalableTag<uint64_t>;
using V64 = hn::Vec<D64>;

/// Multiplies the low halves of two lanes to 64 bits.
HWY_INLINE V64 multiply(V64 a, V64 b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Mul(a, b);  // both are below 2^32
#else
  const hn::Repartition<uint32_t, D64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
#endif
}

struct Words {
  V64 w[4];
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), one block for each
/// lane. Every lane contains a 32-bit word.
HWY_INLINE Words philox(V64 block, V64 key) {
  const D64 d;
  const V64 low = hn::Set(d, 0xffffffff);
  const V64 m0 = hn::Set(d, 0xD2511F53), m1 = hn::Set(d, 0xCD9E8D57);
  const V64 weyl0 = hn::Set(d, 0x9E3779B9), weyl1 = hn::Set(d, 0xBB67AE85);
  V64 c0 = hn::And(block, low), c1 = hn::ShiftRight<32>(block), c2 = hn::Zero(d), c3 = hn::Zero(d);
  V64 k0 = hn::And(key, low), k1 = hn::ShiftRight<32>(key);
  for (int round = 0; round < 10; ++round) {
    const V64 p0 = multiply(m0, c0), p1 = multiply(m1, c2);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), k0);
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), k1);
    c1 = hn::And(p1, low);
    c3 = hn::And(p0, low);
    k0 = hn::And(hn::Add(k0, weyl0), low);
    k1 = hn::And(hn::Add(k1, weyl1), low);
  }
  return {{c0, c1, c2, c3}};
}

/// The upper 24 bits / 2^24.
HWY_INLINE float to_unit(uint64_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24F;
}

constexpr size_t most = 8;  // lanes of 64 bits

/// Counters that are not consecutive: one block for each element.
void scattered(float* out, const uint64_t* key, const uint64_t* counter, size_t n, unsigned uniform) {
  const D64 d;
  const size_t lanes = hn::Lanes(d);
  alignas(64) uint64_t keys[most], counters[most], words[4][most];
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = HWY_MIN(lanes, n - i);
    for (size_t j = 0; j < lanes; ++j) {
      const size_t at = i + HWY_MIN(j, count - 1);
      keys[j] = key[uniform & 1 ? 0 : at];
      counters[j] = counter[uniform & 2 ? 0 : at];
    }
    const Words w = philox(hn::ShiftRight<2>(hn::Load(d, counters)), hn::Load(d, keys));
    for (int j = 0; j < 4; ++j) hn::Store(w.w[j], d, words[j]);
    for (size_t j = 0; j < count; ++j) out[i + j] = to_unit(words[counters[j] & 3][j]);
  }
}

/// Counters first, first + 1, ...: each block makes four elements.
void consecutive(float* out, uint64_t key, uint64_t first, size_t n) {
  const D64 d;
  const size_t lanes = hn::Lanes(d);
  const V64 keys = hn::Set(d, key);
  alignas(64) uint64_t words[4][most];
  size_t i = 0, skip = first & 3;
  for (uint64_t block = first >> 2; i < n; block += lanes) {
    const Words w = philox(hn::Add(hn::Set(d, block), hn::Iota(d, uint64_t{0})), keys);
#if HWY_TARGET != HWY_SCALAR
    if (skip == 0 && i + 4 * lanes <= n) {
      const hn::Rebind<uint32_t, D64> d32;
      const hn::Rebind<int32_t, D64> di;
      const hn::Rebind<float, D64> df;
      hn::Vec<decltype(df)> f[4];
      for (int j = 0; j < 4; ++j) {
        const auto bits = hn::TruncateTo(d32, hn::ShiftRight<8>(w.w[j]));
        f[j] = hn::Mul(hn::ConvertTo(df, hn::BitCast(di, bits)), hn::Set(df, 0x1p-24F));
      }
      hn::StoreInterleaved4(f[0], f[1], f[2], f[3], df, out + i);
      i += 4 * lanes;
      continue;
    }
#endif
    for (int j = 0; j < 4; ++j) hn::Store(w.w[j], d, words[j]);
    for (size_t j = skip; j < 4 * lanes && i < n; ++j) out[i++] = to_unit(words[j & 3][j >> 2]);
    skip = 0;
  }
}

void random_loop(void* dst, const void* const* src, size_t n, unsigned uniform) {
  auto* out = static_cast<float*>(dst);
  const auto* key = static_cast<const uint64_t*>(src[0]);
  const auto* counter = static_cast<const uint64_t*>(src[1]);
  bool follow = uniform == 1;
  for (size_t i = 1; follow && i < n; ++i) follow = counter[i] == counter[i - 1] + 1;
  if (follow) {
    consecutive(out, *key, *counter, n);
  } else {
    scattered(out, key, counter, n, uniform);
  }
}

}  // namespace

StepFn random() { return random_loop; }

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(random);
StepFn random_step() { return HWY_DYNAMIC_DISPATCH(random)(); }
}  // namespace athanor::loops
#endif
