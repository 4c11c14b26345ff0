// interpolate and its gradient for [N, C, L] and [N, C, H, W]: rows first, and then sums of rows. The
// gradient is the same with the transposed weights.
#include <algorithm>
#include <cstring>
#include <map>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/generic/taps.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/ops/resizing.h"

namespace athanor::cpu {
namespace {

constexpr int64_t rows_together = 16;  // rows of the result that a thread computes at a time

/// The elements that each element of a resized axis sums, and their weights.
template <class T>
struct AxisTaps {
  int64_t in, out;
  std::vector<int64_t> starts;  // element i's taps: [starts[i], starts[i + 1])
  std::vector<int32_t> index;
  std::vector<T> weight;
  bool identity = true;

  AxisTaps(const Resizing& r, bool transposed) : in(r.in), out(r.out) {
    std::vector<std::map<int32_t, double>> shares(static_cast<size_t>(transposed ? in : out));
    for (int64_t i = 0; i < r.out && r.in != r.out; ++i)
      each_share(r, i, [&](int64_t j, double share) {
        if (share == 0) return;
        const auto to = static_cast<size_t>(transposed ? j : i);
        shares[to][static_cast<int32_t>(transposed ? i : j)] += share;
      });
    if (transposed) std::swap(in, out);
    if (in == out) return;
    identity = false;
    for (const auto& element : shares) {
      starts.push_back(static_cast<int64_t>(index.size()));
      for (const auto& [from, share] : element)
        index.push_back(from), weight.push_back(static_cast<T>(share));
    }
    starts.push_back(static_cast<int64_t>(index.size()));
  }

  int64_t count(int64_t i) const {
    return starts[static_cast<size_t>(i) + 1] - starts[static_cast<size_t>(i)];
  }
  /// The range of x that the elements [first, end) of the result need.
  std::pair<int64_t, int64_t> needed(int64_t first, int64_t end) const {
    if (identity) return {first, end};
    const auto from = index.begin() + starts[static_cast<size_t>(first)],
               to = index.begin() + starts[static_cast<size_t>(end)];
    if (from == to) return {0, 0};
    const auto [low, high] = std::minmax_element(from, to);
    return {*low, *high + 1};
  }
};

/// The same with equally many taps for each element (added taps have weight 0), for vector code.
template <class T>
struct Columns {
  int64_t taps = 0;
  std::vector<int32_t> index;  // [taps, out]
  std::vector<T> weight;

  explicit Columns(const AxisTaps<T>& axis) {
    if (axis.identity) return;
    for (int64_t i = 0; i < axis.out; ++i) taps = std::max(taps, axis.count(i));
    index.resize(static_cast<size_t>(taps * axis.out));
    weight.resize(index.size());
    for (int64_t i = 0; i < axis.out; ++i)
      for (int64_t t = 0; t < axis.count(i); ++t) {
        const auto from = static_cast<size_t>(axis.starts[static_cast<size_t>(i)] + t);
        index[static_cast<size_t>(t * axis.out + i)] = axis.index[from];
        weight[static_cast<size_t>(t * axis.out + i)] = axis.weight[from];
      }
  }
};

template <class T>
class Resizer {
 public:
  Resizer(const KernelRequest& request, bool gradient)
      : rows_(resizing_of(request, gradient, 0), gradient),
        columns_(resizing_of(request, gradient, 1), gradient),
        columns_taps_(columns_),
        planes_(request.output().shape[0] * request.output().shape[1]),
        kernels_(&tap_kernels<T>()) {
    for (int64_t row = 0; row < rows_.out; row += rows_together) {
      const auto [low, high] = rows_.needed(row, std::min(rows_.out, row + rows_together));
      most_ = std::max(most_, high - low);
    }
  }

  size_t thread_bytes() const {
    return columns_.identity ? 0 : aligned(static_cast<size_t>(most_ * columns_.out) * sizeof(T));
  }

  void run(const T* x, T* y, std::byte* scratch, int threads) const {
    const int64_t blocks = (rows_.out + rows_together - 1) / rows_together;
    parallel_for(
        planes_ * blocks, planes_ * std::max(rows_.out * columns_.out, rows_.in * columns_.in),
        [&](int64_t begin, int64_t end, int thread) {
          std::vector<char> known(static_cast<size_t>(most_));
          std::vector<const T*> sources;
          auto* resized = reinterpret_cast<T*>(scratch + static_cast<size_t>(thread) * thread_bytes());
          for (int64_t item = begin; item < end; ++item) {
            const int64_t plane = item / blocks, first = item % blocks * rows_together;
            run_block(x + plane * rows_.in * columns_.in, y + plane * rows_.out * columns_.out, first,
                      std::min(rows_.out, first + rows_together), resized, known, sources);
          }
        },
        threads);
  }

 private:
  // Axis 0: rows (a signal has one). Axis 1: columns.
  static Resizing resizing_of(const KernelRequest& request, bool gradient, int axis) {
    const Shape &x = gradient ? request.output().shape : request.inputs[0].shape,
                &y = gradient ? request.inputs[0].shape : request.output().shape;
    const int at = x.rank() == 3 ? 1 + axis : 2 + axis;
    if (at < 2) return resizing(1, 1, request.attrs);
    return resizing(x[at], y[at], request.attrs);
  }

  void run_block(const T* x, T* y, int64_t first, int64_t end, T* resized, std::vector<char>& known,
                 std::vector<const T*>& sources) const {
    const int64_t width = columns_.out, low = rows_.needed(first, end).first;
    std::fill(known.begin(), known.end(), 0);
    const auto row_of = [&](int64_t row, T* direct) -> const T* {
      const T* from = x + row * columns_.in;
      if (columns_.identity) return from;
      const int64_t slot = row - low;
      T* to = direct != nullptr ? direct : resized + slot * width;
      if (direct == nullptr && known[static_cast<size_t>(slot)] != 0) return to;
      if (direct == nullptr) known[static_cast<size_t>(slot)] = 1;
      kernels_->gather(from, columns_taps_.index.data(), columns_taps_.weight.data(), columns_taps_.taps,
                       width, width, to);
      return to;
    };
    for (int64_t row = first; row < end; ++row) {
      T* to = y + row * width;
      if (rows_.identity) {
        const T* from = row_of(row, to);
        if (from != to) std::copy_n(from, width, to);
        continue;
      }
      const auto start = static_cast<size_t>(rows_.starts[static_cast<size_t>(row)]);
      const int64_t count = rows_.count(row);
      sources.clear();
      for (int64_t t = 0; t < count; ++t)
        sources.push_back(row_of(rows_.index[start + static_cast<size_t>(t)], nullptr));
      const T* weights = rows_.weight.data() + start;
      if (count == 0)
        std::fill_n(to, width, T{0});
      else if (count == 1 && weights[0] == T{1})
        std::copy_n(sources[0], width, to);
      else
        kernels_->combine(sources.data(), weights, count, width, to);
    }
  }

  AxisTaps<T> rows_, columns_;
  Columns<T> columns_taps_;
  int64_t planes_, most_ = 0;
  const TapKernels<T>* kernels_;
};

template <class T>
Candidate make_resizer(const KernelRequest& request) {
  size_t copies = 0;
  const MergedInput x(request, 0, {}, copies);
  const int threads = cpu_workers();
  const Resizer<T> resizer(request, request.op->name == "interpolate_grad");
  const size_t scratch = aligned(copies) + static_cast<size_t>(threads) * resizer.thread_bytes();
  return function_candidate("generic resizing", scratch, [=](Buffers buffers) {
    auto* memory = static_cast<std::byte*>(buffers.size() > 2 ? buffers[2] : nullptr);
    resizer.run(x.resolve<T>(buffers), static_cast<T*>(buffers[1]), memory + aligned(copies), threads);
  });
}

bool serves_resizing(std::span<const TensorType> inputs, const TensorType& output) {
  const bool fits = std::max(inputs[0].shape.size(), output.shape.size()) <= INT32_MAX;
  return fits && output.shape.rank() <= 4 && (output.dtype == DType::f32 || output.dtype == DType::f64);
}

}  // namespace

static std::vector<Candidate> resizing_kernels(const KernelRequest& request) {
  const TensorType x{request.inputs[0].dtype, request.inputs[0].shape, {}},
      y{request.output().dtype, request.output().shape, {}};
  if (!serves_resizing({&x, 1}, y)) return {};
  return {x.dtype == DType::f32 ? make_resizer<float>(request) : make_resizer<double>(request)};
}

namespace {

[[maybe_unused]] const bool resizing_registered = register_kernels(
    {.ops = {"interpolate", "interpolate_grad"}, .candidates = resizing_kernels, .serves = serves_resizing});

}  // namespace

}  // namespace athanor::cpu
