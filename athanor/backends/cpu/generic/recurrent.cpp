// lstm, gru and their gradients. Examples do not depend on each other, so a thread takes some of them through
// all times without waiting for others.
#include <algorithm>

#include "athanor/backends/cpu/generic/gemm_micro.h"
#include "athanor/backends/cpu/generic/recurrent_cells.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

int64_t whole_tiles(int64_t value, int64_t tile) { return (value + tile - 1) / tile * tile; }

/// A matrix [k, n] packed once, by which few rows are multiplied many times.
template <class T>
class PackedProduct {
 public:
  PackedProduct(int64_t k, int64_t n, int64_t rows)
      : micro_(micro_kernel<T>()),
        k_(k),
        n_(n),
        rows_(whole_tiles(rows, micro_.rows)),
        width_(whole_tiles(n, micro_.columns)) {}

  size_t packed_bytes() const { return aligned(static_cast<size_t>(width_ * k_) * sizeof(T)); }
  size_t thread_bytes() const {
    return aligned(static_cast<size_t>(rows_ * width_) * sizeof(T)) +
           aligned(static_cast<size_t>(rows_ * k_) * sizeof(T));
  }
  /// The distance of two rows of a tile.
  int64_t width() const { return width_; }

  /// b: element [k, n] is at b[k * row + n * column].
  void pack(const T* b, int64_t row, int64_t column, T* packed) const {
    parallel_for(width_ / micro_.columns, width_ * k_, [&](int64_t begin, int64_t end, int) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const auto put = [&](int64_t p, int64_t j) {
          const int64_t at = panel * micro_.columns + j;
          packed[(panel * k_ + p) * micro_.columns + j] = at < n_ ? b[p * row + at * column] : T{0};
        };
        // In the order in which b lies in memory.
        if (row < column)
          for (int64_t j = 0; j < micro_.columns; ++j)
            for (int64_t p = 0; p < k_; ++p) put(p, j);
        else
          for (int64_t p = 0; p < k_; ++p)
            for (int64_t j = 0; j < micro_.columns; ++j) put(p, j);
      }
    });
  }

  /// tile[i, j] += sum over p of a[i * stride + p] * b[p, j] for i < count. `memory`: thread_bytes().
  void add(const T* a, int64_t stride, int64_t count, const T* packed, T* memory) const {
    T* panels = memory + aligned(static_cast<size_t>(rows_ * width_) * sizeof(T)) / sizeof(T);
    for (int64_t first = 0; first < count; first += micro_.rows) {
      T* panel = panels + first * k_;
      const int64_t used = std::min<int64_t>(micro_.rows, count - first);
      if (used < micro_.rows) std::fill_n(panel, k_ * micro_.rows, T{0});
      for (int64_t i = 0; i < used; ++i)
        for (int64_t p = 0; p < k_; ++p) panel[p * micro_.rows + i] = a[(first + i) * stride + p];
    }
    for (int64_t j = 0; j < width_; j += micro_.columns)
      for (int64_t i = 0; i < count; i += micro_.rows)
        micro_.run(k_, panels + i * k_, packed + j * k_, memory + i * width_ + j, width_);
  }

 private:
  MicroKernel<T> micro_;
  int64_t k_, n_, rows_, width_;
};

/// What the four kernels share. `gates`: how many the weight has, 4 or 3.
struct Recurrence {
  int64_t batch, times, h, gates;
  int threads;

  int64_t rows_together() const { return std::max<int64_t>(1, (batch + threads - 1) / threads); }
};

/// Calls body(first example, count, tile) for a few examples at a time. The weight is packed before:
/// transposed, for states times it, or as it is, for gradients of gates.
template <class T, class Body>
void each_rows(const Recurrence& r, const PackedProduct<T>& product, std::byte* scratch, Body body) {
  parallel_for(
      r.batch, r.batch * r.times * r.gates * r.h * std::max<int64_t>(1, r.h / 8),
      [&](int64_t begin, int64_t end, int thread) {
        auto* tile = reinterpret_cast<T*>(scratch + product.packed_bytes() +
                                          static_cast<size_t>(thread) * product.thread_bytes());
        for (int64_t first = begin; first < end; first += r.rows_together())
          body(first, std::min(r.rows_together(), end - first), tile);
      },
      r.threads);
}

template <class T>
void run_lstm(const Recurrence& r, const PackedProduct<T>& product, const T* gates, const T* weight,
              const T* hidden, const T* cell, T* y, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, 1, r.h, packed);
  each_rows<T>(r, product, scratch, [&](int64_t first, int64_t count, T* tile) {
    for (int64_t t = 0; t < r.times; ++t) {
      const auto at = [&](int64_t i) { return (first + i) * r.times + t; };
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(gates + at(i) * 4 * r.h, 4 * r.h, tile + i * product.width());
      product.add(t == 0 ? hidden + first * r.h : y + (at(0) - 1) * 2 * r.h, t == 0 ? r.h : r.times * 2 * r.h,
                  count, packed, tile);
      for (int64_t i = 0; i < count; ++i) {
        T* to = y + at(i) * 2 * r.h;
        cell_kernels<T>().lstm(r.h, tile + i * product.width(), t == 0 ? cell + (first + i) * r.h : to - r.h,
                               to, to + r.h);
      }
    }
  });
}

template <class T>
void run_lstm_grad(const Recurrence& r, const PackedProduct<T>& product, const T* gates, const T* weight,
                   const T* cell, const T* y, const T* dy, T* out, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, r.h, 1, packed);
  each_rows<T>(r, product, scratch, [&](int64_t first, int64_t count, T* tile) {
    const std::vector<T> none(static_cast<size_t>(r.h));
    std::fill_n(tile, count * product.width(), T{0});
    for (int64_t t = r.times; t-- > 0;) {
      const auto at = [&](int64_t i) { return (first + i) * r.times + t; };
      for (int64_t i = 0; i < count; ++i) {
        const T* after = y + at(i) * 2 * r.h + r.h;
        T* row = out + at(i) * 5 * r.h;
        cell_kernels<T>().lstm_grad(r.h, gates + at(i) * 4 * r.h,
                                    t == 0 ? cell + (first + i) * r.h : after - 2 * r.h, after,
                                    dy + at(i) * 2 * r.h, tile + i * product.width(),
                                    t + 1 == r.times ? none.data() : row + 9 * r.h, row);
      }
      if (t == 0) break;
      std::fill_n(tile, count * product.width(), T{0});
      product.add(out + at(0) * 5 * r.h, r.times * 5 * r.h, count, packed, tile);
    }
  });
}

template <class T>
void run_gru(const Recurrence& r, const PackedProduct<T>& product, const T* gates, const T* weight,
             const T* bias, const T* hidden, T* y, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, 1, r.h, packed);
  each_rows<T>(r, product, scratch, [&](int64_t first, int64_t count, T* tile) {
    for (int64_t t = 0; t < r.times; ++t) {
      const auto at = [&](int64_t i) { return (first + i) * r.times + t; };
      for (int64_t i = 0; i < count; ++i) std::copy_n(bias, 3 * r.h, tile + i * product.width());
      product.add(t == 0 ? hidden + first * r.h : y + (at(0) - 1) * r.h, t == 0 ? r.h : r.times * r.h, count,
                  packed, tile);
      for (int64_t i = 0; i < count; ++i) {
        T* to = y + at(i) * r.h;
        cell_kernels<T>().gru(r.h, gates + at(i) * 3 * r.h, tile + i * product.width(),
                              t == 0 ? hidden + (first + i) * r.h : to - r.h, to);
      }
    }
  });
}

template <class T>
void run_gru_grad(const Recurrence& r, const PackedProduct<T>& product, const T* gates, const T* own,
                  const T* weight, const T* hidden, const T* y, const T* dy, T* out, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, r.h, 1, packed);
  each_rows<T>(r, product, scratch, [&](int64_t first, int64_t count, T* tile) {
    std::fill_n(tile, count * product.width(), T{0});
    for (int64_t t = r.times; t-- > 0;) {
      const auto at = [&](int64_t i) { return (first + i) * r.times + t; };
      for (int64_t i = 0; i < count; ++i) {
        const T* before = t == 0 ? hidden + (first + i) * r.h : y + (at(i) - 1) * r.h;
        T* row = out + at(i) * 5 * r.h;
        cell_kernels<T>().gru_grad(r.h, gates + at(i) * 3 * r.h, own + at(i) * 3 * r.h, before,
                                   dy + at(i) * r.h, tile + i * product.width(), row);
        std::copy_n(row + 4 * r.h, r.h, tile + i * product.width());
      }
      if (t > 0) product.add(out + at(0) * 5 * r.h + r.h, r.times * 5 * r.h, count, packed, tile);
    }
  });
}

bool serves_recurrence(std::span<const TensorType> inputs, const TensorType& output) {
  return inputs.back().shape.size() > 0 && (output.dtype == DType::f32 || output.dtype == DType::f64);
}

template <class T>
Candidate make_recurrence(const KernelRequest& request) {
  const std::string& name = request.op->name;
  const bool gradient = name.ends_with("_grad"), lstm = name.starts_with("lstm");
  const Shape &y = request.output().shape, &weight = request.inputs[name == "gru_grad" ? 2 : 1].shape;
  const Recurrence r{y[0], y[1], weight[1], lstm ? 4 : 3, cpu_threads()};
  const PackedProduct<T> product(gradient ? weight[0] : r.h, gradient ? r.h : weight[0], r.rows_together());
  size_t copies = 0;
  std::vector<MergedInput> inputs;
  for (int i = 0; i < static_cast<int>(request.inputs.size()); ++i)
    inputs.emplace_back(request, i, std::vector<int>{}, copies);
  const size_t scratch =
      aligned(copies) + product.packed_bytes() + static_cast<size_t>(r.threads) * product.thread_bytes();
  return function_candidate("generic recurrence", scratch, [=](Buffers b) {
    const auto in = [&](size_t i) { return inputs[i].template resolve<T>(b); };
    const size_t n = inputs.size();
    T* to = static_cast<T*>(b[n]);
    auto* memory = static_cast<std::byte*>(b[n + 1]) + aligned(copies);
    if (name == "lstm") run_lstm<T>(r, product, in(0), in(1), in(2), in(3), to, memory);
    if (name == "gru") run_gru<T>(r, product, in(0), in(1), in(2), in(3), to, memory);
    if (name == "lstm_grad") run_lstm_grad<T>(r, product, in(0), in(1), in(2), in(3), in(4), to, memory);
    if (name == "gru_grad") run_gru_grad<T>(r, product, in(0), in(1), in(2), in(3), in(4), in(5), to, memory);
  });
}

}  // namespace

static std::vector<Candidate> recurrence_kernels(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  if (dtype == DType::f32) return {make_recurrence<float>(request)};
  if (dtype == DType::f64) return {make_recurrence<double>(request)};
  return {};
}

namespace {

[[maybe_unused]] const bool recurrence_registered =
    register_kernels({.ops = {"lstm", "lstm_grad", "gru", "gru_grad"},
                      .candidates = recurrence_kernels,
                      .serves = serves_recurrence});

}  // namespace

}  // namespace athanor::cpu
