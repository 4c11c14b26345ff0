// take_along: out[o, p, i] = x[o, index[o, p, i], i].
#include <cstring>

#include "athanor/backends/cpu/generic/index.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

template <class T, class Index>
void run_take(const MergedInput& x, const MergedInput& index, const T* from, const Index* indices, T* to) {
  const int64_t outer = index.extent(0), taken = index.extent(1), inner = index.extent(2),
                extent = x.extent(1);
  parallel_for(outer * taken, outer * taken * inner, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t o = row / taken, p = row % taken;
      const T* source = from + o * x.stride(0);
      const Index* at = indices + o * index.stride(0) + p * index.stride(1);
      T* out = to + row * inner;
      if (index.stride(2) == 0 && x.stride(2) == 1 && inner > 0) {  // whole rows: an embedding
        source += checked_index(*at, extent, "take_along") * x.stride(1);
        std::memcpy(out, source, static_cast<size_t>(inner) * sizeof(T));
        continue;
      }
      for (int64_t i = 0; i < inner; ++i)
        out[i] = source[checked_index(at[i * index.stride(2)], extent, "take_along") * x.stride(1) +
                        i * x.stride(2)];
    }
  });
}

template <class T>
Candidate make(const KernelRequest& request, const MergedInput& x, const MergedInput& index, size_t scratch) {
  const auto with = [&]<class Index>(Index) {
    return function_candidate("generic take_along", scratch, [x, index](Buffers buffers) {
      run_take(x, index, x.resolve<T>(buffers), index.resolve<Index>(buffers), static_cast<T*>(buffers[2]));
    });
  };
  return request.inputs[1].dtype == DType::i64 ? with(int64_t{}) : with(int32_t{});
}

}  // namespace

static Candidate take_along_kernel(const KernelRequest& request) {
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  size_t scratch = 0;
  const MergedInput x(request, 0, {axis, axis + 1}, scratch), index(request, 1, {axis, axis + 1}, scratch);
  switch (size_of(request.output().dtype)) {  // elements are only moved
    case 1:
      return make<uint8_t>(request, x, index, scratch);
    case 2:
      return make<uint16_t>(request, x, index, scratch);
    case 4:
      return make<uint32_t>(request, x, index, scratch);
    default:
      return make<uint64_t>(request, x, index, scratch);
  }
}

namespace {

[[maybe_unused]] const bool take_along_registered =
    register_kernels({.ops = {"take_along"}, .candidates = only<take_along_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
