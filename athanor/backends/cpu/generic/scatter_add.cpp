// scatter_add: out = zeros; out[o, index[o, p, i], i] += src[o, p, i], in the order of p.
#include <algorithm>

#include "athanor/backends/cpu/generic/columns.h"
#include "athanor/backends/cpu/generic/index.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {
namespace {

template <class T>
constexpr bool sums_in_place = std::is_same_v<T, Acc<T>>;

struct Sizes {
  int64_t outer, extent, inner;
};

/// Sums of type S are computed in `sums`: the output itself, or scratch memory if S is wider than T.
template <class T, class S, class Index>
void run_scatter(const Sizes& sizes, const MergedInput& index, const MergedInput& source,
                 const Index* indices, const T* from, S* sums, T* to) {
  const auto [outer, extent, inner] = sizes;
  const int64_t n = source.extent(1);
  const auto chunk = [&, extent = extent, inner = inner](int64_t o, int64_t first, int64_t count, int) {
    S* out = sums + o * extent * inner + first;
    for (int64_t p = 0; p < extent; ++p) std::fill_n(out + p * inner, count, S{0});
    const int64_t index_step = index.stride(2), source_step = source.stride(2);
    for (int64_t p = 0; p < n; ++p) {
      const Index* at = indices + o * index.stride(0) + p * index.stride(1) + first * index_step;
      const T* row = from + o * source.stride(0) + p * source.stride(1) + first * source_step;
      if (index_step == 0) {  // whole rows: the gradient of an embedding
        S* target = out + checked_index(*at, extent, "scatter_add") * inner;
        for (int64_t i = 0; i < count; ++i) target[i] += load(row[i * source_step]);
      } else {
        for (int64_t i = 0; i < count; ++i)
          out[checked_index(at[i * index_step], extent, "scatter_add") * inner + i] +=
              load(row[i * source_step]);
      }
    }
    if constexpr (!std::is_same_v<T, S>)
      for (int64_t p = 0; p < extent; ++p)
        for (int64_t i = 0; i < count; ++i)
          to[(o * extent + p) * inner + first + i] = store<T>(out[p * inner + i]);
  };
  for_each_column_chunk(outer, n + extent, inner, 4096, chunk);
}

}  // namespace

static Candidate scatter_add_kernel(const KernelRequest& request) {
  const Shape& shape = request.output().shape;
  const int axis = normalize_axis(request.attrs.integer("axis"), shape.rank());
  size_t copies = 0;
  const MergedInput index(request, 0, {axis, axis + 1}, copies), source(request, 1, {axis, axis + 1}, copies);
  const Sizes sizes{product(shape, 0, axis), shape[axis], product(shape, axis + 1, shape.rank())};
  return visit_dtype(request.output().dtype, [&]<class T>(T) {
    const auto with = [&]<class Index>(Index) {
      const size_t sums = sums_in_place<T> ? 0 : static_cast<size_t>(shape.size()) * sizeof(Acc<T>);
      return function_candidate("generic scatter_add", aligned(copies) + sums, [=](Buffers buffers) {
        const auto* indices = index.template resolve<Index>(buffers);
        const auto* from = source.template resolve<T>(buffers);
        T* to = static_cast<T*>(buffers[2]);
        if constexpr (sums_in_place<T>) {
          run_scatter(sizes, index, source, indices, from, to, to);
        } else {
          auto* scratch =
              static_cast<std::byte*>(buffers.size() > 3 ? buffers[3] : nullptr) + aligned(copies);
          run_scatter(sizes, index, source, indices, from, reinterpret_cast<Acc<T>*>(scratch), to);
        }
      });
    };
    return request.inputs[0].dtype == DType::i64 ? with(int64_t{}) : with(int32_t{});
  });
}

namespace {

[[maybe_unused]] const bool scatter_add_registered =
    register_kernels({.ops = {"scatter_add"}, .candidates = only<scatter_add_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
