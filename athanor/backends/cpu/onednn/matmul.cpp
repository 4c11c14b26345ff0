// batch_matmul.
//
// Measured with oneDNN 2.6 on a Zen 4 for the shapes of an MLP: its inner-product primitives and reordered
// weights are never faster than matmul on the tensors as they are; sgemm sometimes is, by a few percent.
#include <dnnl.h>

#include <algorithm>
#include <optional>

#include "athanor/backends/cpu/generic/gemm_shape.h"
#include "athanor/backends/cpu/onednn/candidates.h"
#include "athanor/backends/cpu/onednn/sequence.h"
#include "athanor/backends/cpu/openmp.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/base/error.h"

namespace athanor::cpu {
namespace {

using memory = dnnl::memory;

struct Matrix {
  bool transposed;  // the first axis is the contiguous one
  int64_t leading;  // the stride of the other axis
  int64_t batch;    // 0: one matrix for all
};

// Whether oneDNN takes a batch of `lines` contiguous lines each: an axis must step over all of the axes whose
// strides are smaller. Matrices of every other row do not, if the last row is the last of the source.
bool nests(const Matrix& matrix, int64_t line, int64_t lines, int64_t batch) {
  return matrix.batch == 0 || matrix.batch >= matrix.leading * lines ||
         (matrix.batch >= line && matrix.leading >= matrix.batch * batch);
}

// oneDNN requires one contiguous axis, and true strides even along axes of extent 1.
std::optional<Matrix> matrix_of(const GemmShape::Strides& strides, int64_t rows, int64_t columns,
                                int64_t batch) {
  const int64_t batch_stride = batch == 1 ? 0 : strides.batch;
  if (batch_stride < 0) return {};
  if ((strides.column == 1 || columns == 1) && (rows == 1 || strides.row >= columns)) {
    const Matrix matrix{false, rows == 1 ? columns : strides.row, batch_stride};
    if (nests(matrix, columns, rows, batch)) return matrix;
  }
  if ((strides.row == 1 || rows == 1) && (columns == 1 || strides.column >= rows)) {
    const Matrix matrix{true, columns == 1 ? rows : strides.column, batch_stride};
    if (nests(matrix, rows, columns, batch)) return matrix;
  }
  return {};
}

memory::desc desc_of(const Matrix& matrix, DType dtype, int64_t rows, int64_t columns, int64_t batch) {
  const int64_t row = matrix.transposed ? 1 : matrix.leading, column = matrix.transposed ? matrix.leading : 1;
  if (batch == 1) return {memory::dims{rows, columns}, onednn_type(dtype), memory::dims{row, column}};
  const bool shared = matrix.batch == 0;
  return {memory::dims{shared ? 1 : batch, rows, columns}, onednn_type(dtype),
          memory::dims{shared ? matrix.leading * (matrix.transposed ? columns : rows) : matrix.batch, row,
                       column}};
}

void add_matmuls(const KernelRequest& request, const GemmShape& shape, const Matrix& a, const Matrix& b,
                 std::vector<Candidate>& candidates) {
  const DType dtype = request.output().dtype;
  const auto left = desc_of(a, dtype, shape.m, shape.k, shape.batch);
  const auto right = desc_of(b, dtype, shape.k, shape.n, shape.batch);
  const auto result = desc_of({false, shape.n, shape.m * shape.n}, dtype, shape.m, shape.n, shape.batch);
  const memory::dims bias_dims = shape.batch == 1 ? memory::dims{1, shape.n} : memory::dims{1, 1, shape.n};
  const memory::desc bias(bias_dims, onednn_type(dtype),
                          shape.batch == 1 ? memory::format_tag::ab : memory::format_tag::abc);
  const auto attr = primitive_attributes(shape.activation);
  auto found = shape.bias ? describe<dnnl::matmul>(attr, left, right, bias, result)
                          : describe<dnnl::matmul>(attr, left, right, result);
  if (!found) return;
  do {
    const std::string implementation = found->primitive_desc.impl_info_str();
    if (implementation.find("ref") != std::string::npos) continue;
    // If oneDNN is asked twice for the same problem, it goes through its implementations twice.
    const std::string name = "oneDNN matmul " + implementation;
    if (std::ranges::any_of(candidates, [&](const Candidate& known) { return known.name == name; })) continue;
    add_candidate(candidates, [&] {
      Sequence sequence(request);
      std::vector<Sequence::Argument> arguments = {{DNNL_ARG_SRC, left, sequence.input(0, left, left)},
                                                   {DNNL_ARG_WEIGHTS, right, sequence.input(1, right, right)},
                                                   {DNNL_ARG_DST, result, sequence.output(result, result)}};
      if (shape.bias) {
        sequence.make_dense(2);
        arguments.push_back({DNNL_ARG_BIAS, bias, sequence.input(2, bias, bias)});
      }
      sequence.add(dnnl::matmul(found->primitive_desc), found->primitive_desc.scratchpad_desc(), arguments);
      return std::move(sequence).finish(name);
    });
  } while (found->primitive_desc.next_impl());
}

void finish_rows(const GemmShape& shape, const float* bias, float* c) {
  parallel_for(shape.m, shape.m * shape.n, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = c + i * shape.n;
      if (bias != nullptr)
        for (int64_t j = 0; j < shape.n; ++j) row[j] += bias[j];
      if (shape.activation == Activation::relu)
        for (int64_t j = 0; j < shape.n; ++j) row[j] = activate(Activation::relu, row[j]);
      else if (shape.activation != Activation::none)
        for (int64_t j = 0; j < shape.n; ++j) row[j] = activate(shape.activation, row[j]);
    }
  });
}

Candidate sgemm(const GemmShape& shape, const Matrix& a, const Matrix& b) {
  return function_candidate("oneDNN sgemm", 0, [shape, a, b, threads = cpu_threads()](Buffers buffers) {
    use_openmp_threads(threads);
    auto* c = static_cast<float*>(buffers[shape.bias ? 3 : 2]);
    const dnnl_status_t status =
        dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', shape.m, shape.n, shape.k, 1.F,
                   static_cast<const float*>(buffers[0]), a.leading, static_cast<const float*>(buffers[1]),
                   b.leading, 0.F, c, shape.n);
    if (status != dnnl_success) throw Error(ErrorCode::internal, "oneDNN's sgemm failed");
    if (shape.bias || shape.activation != Activation::none)
      finish_rows(shape, shape.bias ? static_cast<const float*>(buffers[2]) : nullptr, c);
  });
}

}  // namespace

static std::vector<Candidate> onednn_matmul(const KernelRequest& request) {
  const GemmShape shape(request);
  const auto a = matrix_of(shape.a, shape.m, shape.k, shape.batch);
  const auto b = matrix_of(shape.b, shape.k, shape.n, shape.batch);
  if (!a || !b) return {};
  std::vector<Candidate> candidates;
  add_matmuls(request, shape, *a, *b, candidates);
  if (shape.batch == 1 && request.output().dtype == DType::f32) candidates.push_back(sgemm(shape, *a, *b));
  return candidates;
}

namespace {

[[maybe_unused]] const bool onednn_matmul_registered =
    register_kernels({KernelSource::library, {"batch_matmul"}, by_onednn<onednn_matmul>, serves_none});

}  // namespace

}  // namespace athanor::cpu
