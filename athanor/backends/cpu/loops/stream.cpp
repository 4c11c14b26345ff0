// Stores past the caches.
#include <cstdint>
#include <cstring>

#include "athanor/backends/cpu/loops/targets.h"
#include "athanor/backends/cpu/loops/tiling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/stream.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/lanes-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {

void stream_bytes(uint8_t* to, const uint8_t* from, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const size_t head = -reinterpret_cast<uintptr_t>(to) & (lanes - 1);
  size_t i = head < bytes ? head : bytes;
  std::memcpy(to, from, i);
  for (; i + lanes <= bytes; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(stream_bytes);
void stream(void* to, const void* from, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)
  (static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), static_cast<size_t>(bytes));
}
void finish_streaming() { hwy::FlushStream(); }
}  // namespace athanor::loops
#endif
