// grouped_matmul and its gradient by the matrices.
#include <algorithm>

#include "athanor/backends/cpu/generic/part_gemm.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/ops/group_ends.h"

namespace athanor::cpu {
namespace {

struct Ranges {
  int64_t begin, end;
};

/// Parts of a result [rows, columns], about one for each thread, and all of one size. So threads have the
/// same work, however unlike the groups are.
class EqualParts {
 public:
  EqualParts(int64_t rows, int64_t columns, int64_t panel, int threads)
      : rows_(rows), columns_(columns), panel_(panel) {
    // A part packs the matrices that its rows are multiplied by, which is worth it for many rows.
    constexpr int64_t worth_packing = 96, least_rows = 12;
    const int64_t panels = std::max<int64_t>(1, (columns + panel - 1) / panel);
    for (int64_t n = 1; n <= threads; ++n)
      if (threads % n == 0 && rows / n >= worth_packing) down_ = n;
    across_ = std::min(threads / down_, panels);
    down_ = std::clamp<int64_t>(rows / least_rows, 1, threads / across_);
  }

  int64_t count() const { return down_ * across_; }
  Ranges rows(int64_t part) const { return share(part / across_, rows_); }
  /// The part's share of other rows than those that were divided.
  Ranges share(int64_t part, int64_t first, int64_t end) const {
    const Ranges range = share(part / across_, end - first);
    return {first + range.begin, first + range.end};
  }
  Ranges columns(int64_t part) const {
    const int64_t panels = (columns_ + panel_ - 1) / panel_, i = part % across_;
    return {panels * i / across_ * panel_, std::min(columns_, panels * (i + 1) / across_ * panel_)};
  }

 private:
  Ranges share(int64_t i, int64_t all) const { return {all * i / down_, all * (i + 1) / down_}; }

  int64_t rows_, columns_, panel_, down_ = 1, across_ = 1;
};

struct Grouped {
  int64_t rows, inner, groups, columns;
  int threads;
};

// Where each group's rows begin, and where the last one's end.
std::vector<int64_t> bounds_of(const Grouped& g, const MergedInput& input, Buffers buffers) {
  const auto* const ends = input.resolve<int64_t>(buffers);
  std::vector<int64_t> bounds;
  for (int64_t e = 0; e < g.groups; ++e) bounds.push_back(ends[e * input.stride(0)]);
  check_group_ends(bounds, g.rows);
  bounds.insert(bounds.begin(), 0);
  return bounds;
}

template <class T>
void multiply_groups(const Grouped& g, const PartGemm<T>& gemm, const std::vector<int64_t>& bounds,
                     const MergedInput& x, const MergedInput& w, const T* rows, const T* matrices, T* y,
                     std::byte* scratch) {
  const int64_t filled = bounds.back();
  const EqualParts parts(filled, g.columns, gemm.panel(), g.threads);
  const auto body = [&](int64_t part, int thread) {
    const Ranges some = parts.rows(part), columns = parts.columns(part),
                 empty = parts.share(part, filled, g.rows);
    const int64_t width = columns.end - columns.begin;
    for (int64_t e = 0; e < g.groups; ++e) {
      const int64_t begin = std::max(bounds[static_cast<size_t>(e)], some.begin),
                    end = std::min(bounds[static_cast<size_t>(e) + 1], some.end);
      if (begin < end)
        gemm.run({rows + begin * x.stride(0), x.stride(0), x.stride(1)},
                 {matrices + e * w.stride(0) + columns.begin * w.stride(2), w.stride(1), w.stride(2)},
                 y + begin * g.columns + columns.begin, g.columns, end - begin, width, g.inner,
                 scratch + static_cast<size_t>(thread) * gemm.scratch_bytes());
    }
    for (int64_t row = empty.begin; row < empty.end; ++row)
      std::fill_n(y + row * g.columns + columns.begin, width, T{});
  };
  parallel_for(
      parts.count(), g.rows * g.columns * std::max<int64_t>(1, g.inner / 8),
      [&](int64_t begin, int64_t end, int thread) {
        for (int64_t part = begin; part < end; ++part) body(part, thread);
      },
      g.threads);
}

// A thread computes the same part of every group's matrix.
template <class T>
void add_up_groups(const Grouped& g, const PartGemm<T>& gemm, const std::vector<int64_t>& bounds,
                   const MergedInput& x, const MergedInput& dy, const T* rows, const T* gradients, T* dw,
                   std::byte* scratch) {
  const EqualParts parts(g.inner, g.columns, gemm.panel(), g.threads);
  const auto body = [&](int64_t part, int thread) {
    const Ranges some = parts.rows(part), columns = parts.columns(part);
    for (int64_t e = 0; e < g.groups; ++e) {
      const int64_t begin = bounds[static_cast<size_t>(e)], end = bounds[static_cast<size_t>(e) + 1];
      gemm.run({rows + begin * x.stride(0) + some.begin * x.stride(1), x.stride(1), x.stride(0)},
               {gradients + begin * dy.stride(0) + columns.begin * dy.stride(1), dy.stride(0), dy.stride(1)},
               dw + (e * g.inner + some.begin) * g.columns + columns.begin, g.columns, some.end - some.begin,
               columns.end - columns.begin, end - begin,
               scratch + static_cast<size_t>(thread) * gemm.scratch_bytes());
    }
  };
  parallel_for(
      parts.count(), (g.rows / 8 + g.groups) * g.inner * g.columns,
      [&](int64_t begin, int64_t end, int thread) {
        for (int64_t part = begin; part < end; ++part) body(part, thread);
      },
      g.threads);
}

template <class T>
Candidate make_grouped(const KernelRequest& request) {
  const bool gradient = request.op->name == "grouped_matmul_weight_grad";
  const Shape& shape = request.inputs[1].shape;
  const Grouped g{request.inputs[0].shape[0], request.inputs[0].shape[1], request.inputs[2].shape[0],
                  shape[gradient ? 1 : 2], cpu_workers()};
  const PartGemm<T> gemm(gradient ? g.inner : g.rows, g.columns, gradient ? g.rows : g.inner);
  size_t scratch = aligned(static_cast<size_t>(g.threads) * gemm.scratch_bytes());
  const MergedInput x(request, 0, {1}, scratch),
      other(request, 1, gradient ? std::vector<int>{1} : std::vector<int>{1, 2}, scratch),
      ends(request, 2, {}, scratch);
  return function_candidate("generic grouped", scratch, [=](Buffers b) {
    const std::vector<int64_t> bounds = bounds_of(g, ends, b);
    const auto run = gradient ? add_up_groups<T> : multiply_groups<T>;
    run(g, gemm, bounds, x, other, x.resolve<T>(b), other.resolve<T>(b), static_cast<T*>(b[3]),
        static_cast<std::byte*>(b[4]));
  });
}

bool serves_groups(std::span<const TensorType>, const TensorType& output) {
  return is_float(output.dtype) && size_of(output.dtype) > 1;
}

}  // namespace

static std::vector<Candidate> grouped_kernels(const KernelRequest& request) {
  switch (request.output().dtype) {
    case DType::f32:
      return {make_grouped<float>(request)};
    case DType::f64:
      return {make_grouped<double>(request)};
    case DType::f16:
      return {make_grouped<f16>(request)};
    case DType::bf16:
      return {make_grouped<bf16>(request)};
    default:
      return {};
  }
}

namespace {

[[maybe_unused]] const bool grouped_registered =
    register_kernels({.ops = {"grouped_matmul", "grouped_matmul_weight_grad"},
                      .candidates = grouped_kernels,
                      .serves = serves_groups});

}  // namespace

}  // namespace athanor::cpu
