// cumsum: running sums along an axis.
#include <vector>

#include "athanor/backends/cpu/generic/columns.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {
namespace {

constexpr int64_t widest_sum = 256;

template <class T>
void run_cumsum(const MergedInput& input, const T* from, T* to) {
  const int64_t outer = input.extent(0), n = input.extent(1), inner = input.extent(2);
  for_each_column_chunk(outer, n, inner, widest_sum, [&](int64_t o, int64_t first, int64_t count, int) {
    Acc<T> sums[widest_sum] = {};
    for (int64_t p = 0; p < n; ++p) {
      const T* row = from + o * input.stride(0) + p * input.stride(1) + first * input.stride(2);
      T* out = to + (o * n + p) * inner + first;
      for (int64_t i = 0; i < count; ++i) {
        sums[i] += load(row[i * input.stride(2)]);
        out[i] = store<T>(sums[i]);
      }
    }
  });
}

}  // namespace

static Candidate cumsum_kernel(const KernelRequest& request) {
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  size_t scratch = 0;
  const MergedInput input(request, 0, {axis, axis + 1}, scratch);
  return visit_dtype(request.output().dtype, [&]<class T>(T) {
    return function_candidate("generic cumsum", scratch, [input](Buffers buffers) {
      run_cumsum(input, input.resolve<T>(buffers), static_cast<T*>(buffers[1]));
    });
  });
}

namespace {

[[maybe_unused]] const bool cumsum_registered =
    register_kernels({.ops = {"cumsum"}, .candidates = only<cumsum_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
