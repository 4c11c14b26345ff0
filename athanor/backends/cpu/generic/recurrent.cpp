// lstm, gru and their gradients. Examples do not depend on each other, so a thread takes some of them through
// all times without waiting for others. If examples are few, threads divide the features of each time
// instead.
#include <algorithm>

#include "athanor/backends/cpu/generic/recurrent_cells.h"
#include "athanor/backends/cpu/generic/row_product.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/base/ceil_div.h"

namespace athanor::cpu {
namespace {

/// What the four kernels share. `gates`: the number of gates, 4 or 3.
struct Recurrence {
  int64_t batch, times, h, gates;
  int threads;
  bool helped;       // by part-time threads, which get short parts
  bool by_features;  // whether threads divide the features of each time, not the examples

  int64_t rows_together() const {
    if (by_features) return batch;
    const int64_t of_a_thread = std::max<int64_t>(1, ceil_div(batch, int64_t{threads}));
    return helped ? std::min(of_a_thread, std::max<int64_t>(8, ceil_div(of_a_thread, int64_t{4})))
                  : of_a_thread;
  }
};

/// Whether threads divide the features. If each took a few examples, each would read the whole weight.
template <class T>
bool shares_features(int64_t batch, int64_t h, int threads) {
  const int64_t columns = row_kernel<T>().columns;
  return threads > 1 && batch < 8 * threads && h >= 128 && h % columns == 0 && h / columns >= threads;
}

/// Some examples [first, first + count), of which features [begin, end) are computed.
template <class T>
struct Part {
  int64_t first, count, begin, end;
  T *tile, *memory;
};

/// Calls step(t, part) for each time, so that all examples and features are computed. The caller has packed
/// the weight: transposed for products with states, as it is for products with gradients of gates.
template <class T, class Step>
void each_time(const Recurrence& r, const RowProduct<T>& product, bool last_first, std::byte* scratch,
               Step step) {
  const auto time = [&](int64_t i) { return last_first ? r.times - 1 - i : i; };
  const int64_t work = r.batch * r.gates * r.h * std::max<int64_t>(1, r.h / 8);
  const auto tile = [&](int thread) {
    return reinterpret_cast<T*>(scratch + product.packed_bytes() +
                                static_cast<size_t>(thread) * product.thread_bytes());
  };
  if (r.by_features) {
    for (int64_t i = 0; i < r.times; ++i)
      parallel_for(
          r.h / product.columns(), work,
          [&](int64_t begin, int64_t end, int thread) {
            T* own = tile(thread);
            step(time(i), Part<T>{0, r.batch, begin * product.columns(), end * product.columns(), own,
                                  product.after_tile(own)});
          },
          r.threads);
    return;
  }
  const int64_t rows = r.rows_together();
  parallel_for(
      ceil_div(r.batch, rows), r.times * work,
      [&](int64_t begin, int64_t end, int thread) {
        T* own = tile(thread);
        for (int64_t first = begin * rows; first < std::min(end * rows, r.batch); first += rows)
          for (int64_t i = 0; i < r.times; ++i)
            step(time(i),
                 Part<T>{first, std::min(rows, r.batch - first), 0, r.h, own, product.after_tile(own)});
      },
      r.threads);
}

/// tile += rows [count, k] (`stride` apart) times the packed weight, for the part's features of each gate.
template <class T>
void add_product(const Recurrence& r, const RowProduct<T>& product, const T* rows, int64_t stride,
                 const Part<T>& part, int64_t gates, const T* packed) {
  product.take(rows, stride, part.count, part.memory);
  if (part.end - part.begin == r.h)
    return product.add(part.count, 0, product.panels(), packed, part.memory, part.tile);
  for (int64_t gate = 0; gate < gates; ++gate)
    product.add(part.count, (gate * r.h + part.begin) / product.columns(),
                (gate * r.h + part.end) / product.columns(), packed, part.memory, part.tile);
}

template <class T>
void run_lstm(const Recurrence& r, const RowProduct<T>& product, const T* gates, const T* weight,
              const T* hidden, const T* cell, T* y, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, 1, r.h, packed);
  each_time<T>(r, product, false, scratch, [&](int64_t t, const Part<T>& part) {
    const auto at = [&](int64_t i) { return (part.first + i) * r.times + t; };
    for (int64_t i = 0; i < part.count; ++i)
      for (int64_t g = 0; g < 4; ++g)
        std::copy_n(gates + (at(i) * 4 + g) * r.h + part.begin, part.end - part.begin,
                    part.tile + i * product.width() + g * r.h + part.begin);
    add_product(r, product, t == 0 ? hidden + part.first * r.h : y + (at(0) - 1) * 2 * r.h,
                t == 0 ? r.h : r.times * 2 * r.h, part, 4, packed);
    for (int64_t i = 0; i < part.count; ++i) {
      T* to = y + at(i) * 2 * r.h;
      cell_kernels<T>().lstm(r.h, part.begin, part.end, part.tile + i * product.width(),
                             t == 0 ? cell + (part.first + i) * r.h : to - r.h, to, to + r.h);
    }
  });
}

template <class T>
void run_lstm_grad(const Recurrence& r, const RowProduct<T>& product, const T* gates, const T* weight,
                   const T* cell, const T* y, const T* dy, T* out, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, r.h, 1, packed);
  each_time<T>(r, product, true, scratch, [&](int64_t t, const Part<T>& part) {
    const auto at = [&](int64_t i) { return (part.first + i) * r.times + t; };
    const bool last = t + 1 == r.times;
    for (int64_t i = 0; i < part.count; ++i)
      std::fill_n(part.tile + i * product.width() + part.begin, part.end - part.begin, T{0});
    if (!last) add_product(r, product, out + (at(0) + 1) * 5 * r.h, r.times * 5 * r.h, part, 1, packed);
    for (int64_t i = 0; i < part.count; ++i) {
      const T *after = y + at(i) * 2 * r.h + r.h, *later = part.tile + i * product.width();
      T* row = out + at(i) * 5 * r.h;
      cell_kernels<T>().lstm_grad(r.h, part.begin, part.end, gates + at(i) * 4 * r.h,
                                  t == 0 ? cell + (part.first + i) * r.h : after - 2 * r.h, after,
                                  dy + at(i) * 2 * r.h, later, last ? later : row + 9 * r.h, row);
    }
  });
}

template <class T>
void run_gru(const Recurrence& r, const RowProduct<T>& product, const T* gates, const T* weight,
             const T* bias, const T* hidden, T* y, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, 1, r.h, packed);
  each_time<T>(r, product, false, scratch, [&](int64_t t, const Part<T>& part) {
    const auto at = [&](int64_t i) { return (part.first + i) * r.times + t; };
    for (int64_t i = 0; i < part.count; ++i)
      for (int64_t g = 0; g < 3; ++g)
        std::copy_n(bias + g * r.h + part.begin, part.end - part.begin,
                    part.tile + i * product.width() + g * r.h + part.begin);
    add_product(r, product, t == 0 ? hidden + part.first * r.h : y + (at(0) - 1) * r.h,
                t == 0 ? r.h : r.times * r.h, part, 3, packed);
    for (int64_t i = 0; i < part.count; ++i) {
      T* to = y + at(i) * r.h;
      cell_kernels<T>().gru(r.h, part.begin, part.end, gates + at(i) * 3 * r.h,
                            part.tile + i * product.width(),
                            t == 0 ? hidden + (part.first + i) * r.h : to - r.h, to);
    }
  });
}

template <class T>
void run_gru_grad(const Recurrence& r, const RowProduct<T>& product, const T* gates, const T* own,
                  const T* weight, const T* hidden, const T* y, const T* dy, T* out, std::byte* scratch) {
  auto* packed = reinterpret_cast<T*>(scratch);
  product.pack(weight, r.h, 1, packed);
  each_time<T>(r, product, true, scratch, [&](int64_t t, const Part<T>& part) {
    const auto at = [&](int64_t i) { return (part.first + i) * r.times + t; };
    const bool last = t + 1 == r.times;
    for (int64_t i = 0; i < part.count; ++i) {
      T* later = part.tile + i * product.width() + part.begin;
      if (last)
        std::fill_n(later, part.end - part.begin, T{0});
      else
        std::copy_n(out + ((at(i) + 1) * 5 + 4) * r.h + part.begin, part.end - part.begin, later);
    }
    if (!last) add_product(r, product, out + (at(0) + 1) * 5 * r.h + r.h, r.times * 5 * r.h, part, 1, packed);
    for (int64_t i = 0; i < part.count; ++i)
      cell_kernels<T>().gru_grad(r.h, part.begin, part.end, gates + at(i) * 3 * r.h, own + at(i) * 3 * r.h,
                                 t == 0 ? hidden + (part.first + i) * r.h : y + (at(i) - 1) * r.h,
                                 dy + at(i) * r.h, part.tile + i * product.width(), out + at(i) * 5 * r.h);
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
  const int threads = cpu_workers();
  const Recurrence r{y[0],
                     y[1],
                     weight[1],
                     lstm ? 4 : 3,
                     threads,
                     part_time_threads() > 0,
                     shares_features<T>(y[0], weight[1], threads)};
  const RowProduct<T> product(gradient ? weight[0] : r.h, gradient ? r.h : weight[0], r.rows_together());
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
