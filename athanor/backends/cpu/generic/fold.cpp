// fold: the transpose of unfold. Sums windows where they overlap: one every `step` elements along an axis,
// with elements `dilation` apart.
#include <algorithm>

#include "athanor/backends/cpu/generic/columns.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {
namespace {

constexpr int64_t widest_fold = 256;

struct Fold {
  int64_t size, step, dilation;
};

// `scratch` has room for size x widest_fold sums for each thread.
template <class T>
void run_fold(const Fold& fold, const MergedInput& input, const T* from, T* to, Acc<T>* scratch,
              int threads) {
  const int64_t outer = input.extent(0), windows = input.extent(1), k = input.extent(2),
                inner = input.extent(3);
  const auto chunk = [&](int64_t o, int64_t first, int64_t count, int thread) {
    Acc<T>* sums = scratch + thread * fold.size * std::min(inner, widest_fold);
    std::fill(sums, sums + fold.size * count, Acc<T>{0});
    for (int64_t w = 0; w < windows; ++w)
      for (int64_t j = 0; j < k; ++j) {
        const T* row =
            from + o * input.stride(0) + w * input.stride(1) + j * input.stride(2) + first * input.stride(3);
        Acc<T>* sum = sums + (w * fold.step + j * fold.dilation) * count;
        for (int64_t i = 0; i < count; ++i) sum[i] += load(row[i * input.stride(3)]);
      }
    for (int64_t p = 0; p < fold.size; ++p) {
      T* out = to + (o * fold.size + p) * inner + first;
      for (int64_t i = 0; i < count; ++i) out[i] = store<T>(sums[p * count + i]);
    }
  };
  for_each_column_chunk(outer, windows * k, inner, widest_fold, chunk, threads);
}

}  // namespace

static Candidate fold_kernel(const KernelRequest& request) {
  // The input has one more axis than the output: n became [windows, window size].
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  const Fold fold{request.attrs.integer("size"), request.attrs.integer("step"),
                  request.attrs.integer("dilation")};
  size_t copies = 0;
  const MergedInput input(request, 0, {axis, axis + 1, axis + 2}, copies);
  const int threads = cpu_workers();
  return visit_dtype(request.output().dtype, [&]<class T>(T) {
    const size_t sums =
        static_cast<size_t>(threads * fold.size * std::min(input.extent(3), widest_fold)) * sizeof(Acc<T>);
    return function_candidate("generic fold", aligned(copies) + sums, [=](Buffers buffers) {
      auto* scratch = static_cast<std::byte*>(buffers.size() > 2 ? buffers[2] : nullptr);
      run_fold(fold, input, input.resolve<T>(buffers), static_cast<T*>(buffers[1]),
               reinterpret_cast<Acc<T>*>(scratch + aligned(copies)), threads);
    });
  });
}

namespace {

[[maybe_unused]] const bool fold_registered =
    register_kernels({.ops = {"fold"}, .candidates = only<fold_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
