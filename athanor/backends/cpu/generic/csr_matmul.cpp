// csr_matmul and its gradients.
#include <algorithm>

#include "athanor/backends/cpu/generic/columns.h"
#include "athanor/backends/cpu/generic/index.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/generic/taps.h"
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {
namespace {

struct Sparse {
  int64_t rows, elements, columns, n;
};

/// Where each row's elements begin, and where the last row's end. An element's row is the number of rows
/// after the first that begin at or before it, even if the starts do not ascend.
class Rows {
 public:
  Rows(const Sparse& s, const int64_t* starts, const int64_t* column) : s_(s), column_(column) {
    bounds_.push_back(0);
    for (int64_t row = 1; row < s.rows; ++row)
      bounds_.push_back(std::clamp<int64_t>(starts[row], 0, s.elements));
    bounds_.push_back(s.elements);
    if (!std::ranges::is_sorted(bounds_)) std::ranges::sort(bounds_);
  }

  int64_t begin(int64_t row) const { return bounds_[static_cast<size_t>(row)]; }

  /// Calls f(row, element, column) for the elements of rows [first, end). f uses `count` numbers of a row of
  /// `matrix`, the one of the column; rows of later elements are fetched, as no processor foresees them.
  template <class T, class F>
  void each(int64_t first, int64_t end, const T* matrix, int64_t count, F f) const {
    constexpr int64_t ahead = 12, line = 64 / sizeof(T), most_lines = 8;
    const int64_t fetched = std::min(count, most_lines * line);
    for (int64_t row = first; row < end; ++row)
      for (int64_t e = begin(row); e < begin(row + 1); ++e) {
        if (e + ahead < s_.elements)
          if (const int64_t later = column_[e + ahead]; later >= 0 && later < s_.columns)
            for (int64_t i = 0; i < fetched; i += line) __builtin_prefetch(matrix + later * s_.n + i);
        f(row, e, checked_index(column_[e], s_.columns, "csr_matmul"));
      }
  }

 private:
  const Sparse& s_;
  const int64_t* column_;
  std::vector<int64_t> bounds_;
};

template <class T>
void multiply(const Sparse& s, const int64_t* starts, const int64_t* columns, const T* values, const T* dense,
              T* y) {
  const Rows rows(s, starts, columns);
  parallel_for(s.rows, (s.elements + s.rows) * s.n, [&](int64_t begin, int64_t end, int) {
    std::vector<const T*> terms;  // rows of the dense matrix, whose sum is kept in registers
    for (int64_t row = begin; row < end; ++row) {
      terms.clear();
      rows.each(row, row + 1, dense, s.n,
                [&](int64_t, int64_t, int64_t column) { terms.push_back(dense + column * s.n); });
      if (terms.empty())
        std::fill_n(y + row * s.n, s.n, T{0});
      else
        tap_kernels<T>().combine(terms.data(), values + rows.begin(row), std::ssize(terms), s.n,
                                 y + row * s.n);
    }
  });
}

template <class T>
void values_grad(const Sparse& s, const int64_t* starts, const int64_t* columns, const T* dense, const T* dy,
                 T* dvalues) {
  const Rows rows(s, starts, columns);
  if (s.rows == 0) std::fill_n(dvalues, s.elements, T{0});
  parallel_for(s.rows, s.elements * s.n, [&](int64_t begin, int64_t end, int) {
    rows.each(begin, end, dense, s.n, [&](int64_t row, int64_t e, int64_t column) {
      dvalues[e] = tap_kernels<T>().dot(dy + row * s.n, dense + column * s.n, s.n);
    });
  });
}

// Threads share the columns of the dense matrix, so each sum is in the order of the elements.
template <class T>
void dense_grad(const Sparse& s, const int64_t* starts, const int64_t* columns, const T* values, const T* dy,
                T* ddense) {
  const Rows rows(s, starts, columns);
  for_each_column_chunk(
      1, s.elements + s.columns, s.n, 1024, [&](int64_t, int64_t first, int64_t count, int) {
        for (int64_t i = 0; i < s.columns; ++i) std::fill_n(ddense + i * s.n + first, count, T{0});
        rows.each(0, s.rows, ddense + first, count, [&](int64_t row, int64_t e, int64_t column) {
          tap_kernels<T>().add(values[e], dy + row * s.n + first, count, ddense + column * s.n + first);
        });
      });
}

bool serves_sparse(std::span<const TensorType>, const TensorType& output) {
  return output.dtype == DType::f32 || output.dtype == DType::f64;
}

template <class T>
Candidate make_sparse(const KernelRequest& request) {
  size_t copies = 0;
  const MergedInput starts(request, 0, {}, copies), columns(request, 1, {}, copies),
      third(request, 2, {}, copies), fourth(request, 3, {}, copies);
  const std::string& name = request.op->name;
  const Shape &last = request.inputs[3].shape, &output = request.output().shape;
  const Sparse s{request.inputs[0].shape[0] - 1, request.inputs[1].shape[0],
                 name == "csr_matmul"               ? last[0]
                 : name == "csr_matmul_values_grad" ? request.inputs[2].shape[0]
                                                    : output[0],
                 last[1]};
  const auto run = name == "csr_matmul"               ? multiply<T>
                   : name == "csr_matmul_values_grad" ? values_grad<T>
                                                      : dense_grad<T>;
  return function_candidate("generic csr", copies, [=](Buffers b) {
    run(s, starts.resolve<int64_t>(b), columns.resolve<int64_t>(b), third.resolve<T>(b), fourth.resolve<T>(b),
        static_cast<T*>(b[4]));
  });
}

}  // namespace

static std::vector<Candidate> sparse_kernels(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  if (dtype == DType::f32) return {make_sparse<float>(request)};
  if (dtype == DType::f64) return {make_sparse<double>(request)};
  return {};
}

namespace {

[[maybe_unused]] const bool sparse_registered =
    register_kernels({.ops = {"csr_matmul", "csr_matmul_values_grad", "csr_matmul_dense_grad"},
                      .candidates = sparse_kernels,
                      .serves = serves_sparse});

}  // namespace

}  // namespace athanor::cpu
