// reorder: between row-major [N, C, H, W] and blocked [N, C/b, H, W, b].
#include <algorithm>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

// For each block of channels: [b, pixels] <-> [pixels, b], a transposition in tiles of whole cache lines.
template <class T, int block, bool to_blocked>
void transpose(int64_t groups, int64_t pixels, const T* from, T* to) {
  constexpr int64_t tile = 16;
  const int64_t tiles = (pixels + tile - 1) / tile;
  parallel_for(groups * tiles, groups * pixels * block, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t group = item / tiles, first = item % tiles * tile;
      const int64_t last = std::min(first + tile, pixels);
      const T* source = from + group * pixels * block;
      T* out = to + group * pixels * block;
      if constexpr (to_blocked) {
        for (int64_t p = first; p < last; ++p)
          for (int64_t c = 0; c < block; ++c) out[p * block + c] = source[c * pixels + p];
      } else {
        for (int64_t c = 0; c < block; ++c)
          for (int64_t p = first; p < last; ++p) out[c * pixels + p] = source[p * block + c];
      }
    }
  });
}

template <class T>
Candidate make(const MergedInput& input, size_t scratch, int64_t groups, int64_t pixels, int block,
               bool to_blocked) {
  return function_candidate("generic reorder", scratch, [=](Buffers buffers) {
    const T* from = input.resolve<T>(buffers);
    T* to = static_cast<T*>(buffers[1]);
    if (block == 16)
      to_blocked ? transpose<T, 16, true>(groups, pixels, from, to)
                 : transpose<T, 16, false>(groups, pixels, from, to);
    else
      to_blocked ? transpose<T, 8, true>(groups, pixels, from, to)
                 : transpose<T, 8, false>(groups, pixels, from, to);
  });
}

}  // namespace

static Candidate reorder_kernel(const KernelRequest& request) {
  const Shape& shape = request.output().shape;
  const bool to_blocked = request.output().layout.block != 0;
  const int block = to_blocked ? request.output().layout.block : request.inputs[0].layout.block;
  const int64_t groups = shape[0] * shape[1] / block, pixels = shape[2] * shape[3];
  size_t scratch = 0;
  const MergedInput input(request, 0, {}, scratch);
  switch (size_of(request.output().dtype)) {  // elements are only moved
    case 1:
      return make<uint8_t>(input, scratch, groups, pixels, block, to_blocked);
    case 2:
      return make<uint16_t>(input, scratch, groups, pixels, block, to_blocked);
    case 4:
      return make<uint32_t>(input, scratch, groups, pixels, block, to_blocked);
    default:
      return make<uint64_t>(input, scratch, groups, pixels, block, to_blocked);
  }
}

namespace {

[[maybe_unused]] const bool reorder_registered =
    register_kernels({.ops = {"reorder"}, .candidates = only<reorder_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
