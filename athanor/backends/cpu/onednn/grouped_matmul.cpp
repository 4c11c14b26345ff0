// grouped_matmul and its gradient by the matrices in bf16: a product for each group, by a primitive that
// learns the number of its rows when it runs.
//
// Measured with oneDNN 2.6 on two cores of a Zen 4, for 1024 rows and matrices of 256 x 256: with 8 groups it
// takes 0.7 of the time of our own kernel in bf16, and about as long in f32. With 64 groups all threads wait
// for each other too often, and it takes longer.
#include <dnnl.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/onednn/candidates.h"
#include "athanor/backends/cpu/onednn/onednn.h"
#include "athanor/backends/cpu/openmp.h"
#include "athanor/base/threads.h"
#include "athanor/ops/group_ends.h"

namespace athanor::cpu {
namespace {

using Memory = dnnl::memory;

struct GroupStrides {
  int64_t row, column;
};

// oneDNN requires one contiguous axis. Along axes of extent 1 it requires true strides.
bool has_contiguous_axis(int64_t rows, int64_t columns, GroupStrides s) {
  return rows > 1 && columns > 1 && ((s.column == 1 && s.row >= columns) || (s.row == 1 && s.column >= rows));
}

struct GroupedProducts {
  bool gradient;
  DType dtype;
  int64_t rows, inner, groups, columns;
  GroupStrides x, other;
  int64_t from_matrix;  // elements from one matrix of w to the next
  std::optional<dnnl::matmul> primitive;
  Memory::desc scratchpad;

  /// A, B and C of a group with `count` rows.
  Memory::desc a(int64_t count) const {
    return gradient ? matrix(inner, count, {x.column, x.row}) : matrix(count, inner, x);
  }
  Memory::desc b(int64_t count) const { return matrix(gradient ? count : inner, columns, other); }
  Memory::desc c(int64_t count) const { return matrix(gradient ? inner : count, columns, {columns, 1}); }

  void run(const std::vector<int64_t>& bounds, const std::byte* left, const std::byte* right,
           std::byte* result, void* scratch) const {
    const auto size = static_cast<int64_t>(size_of(dtype));
    const Memory scratch_memory(scratchpad, onednn_engine(), scratch);
    const int64_t of_result = (gradient ? inner : 1) * columns * size;  // bytes of a matrix or of a row
    for (int64_t e = 0, begin = 0; e < groups; begin = bounds[static_cast<size_t>(e++)]) {
      const int64_t count = bounds[static_cast<size_t>(e)] - begin;
      std::byte* const to = result + (gradient ? e : begin) * of_result;
      if (count == 0) {
        if (gradient) std::memset(to, 0, static_cast<size_t>(of_result));
        continue;
      }
      const auto at = [&](const Memory::desc& desc, const std::byte* address) {
        return Memory(desc, onednn_engine(), const_cast<std::byte*>(address));
      };
      primitive->execute(
          onednn_stream(),
          {{DNNL_ARG_SRC, at(a(count), left + begin * x.row * size)},
           {DNNL_ARG_WEIGHTS, at(b(count), right + (gradient ? begin * other.row : e * from_matrix) * size)},
           {DNNL_ARG_DST, at(c(count), to)},
           {DNNL_ARG_SCRATCHPAD, scratch_memory}});
    }
    if (!gradient)
      std::memset(result + bounds.back() * of_result, 0,
                  static_cast<size_t>((rows - bounds.back()) * of_result));
  }

 private:
  Memory::desc matrix(int64_t m, int64_t n, GroupStrides s) const {
    return {Memory::dims{m, n}, onednn_type(dtype), Memory::dims{s.row, s.column}};
  }
};

}  // namespace

static std::vector<Candidate> onednn_grouped(const KernelRequest& request) {
  KernelRequest factors = request;
  factors.inputs.pop_back();  // the ends are no floats
  if (request.output().dtype != DType::bf16 || !onednn_takes(factors)) return {};
  constexpr int64_t worth_waiting = 64;  // rows of a group, on average
  if (request.inputs[0].shape[0] < worth_waiting * std::max<int64_t>(1, request.inputs[2].shape.size()))
    return {};
  const bool gradient = request.op->name == "grouped_matmul_weight_grad";
  const OperandDesc &x = request.inputs[0], &other = request.inputs[1];
  const size_t first = gradient ? 0 : 1;  // of the axes of a matrix
  GroupedProducts g{gradient,
                    request.output().dtype,
                    x.shape[0],
                    x.shape[1],
                    request.inputs[2].shape[0],
                    other.shape[static_cast<int>(first) + 1],
                    {x.strides[0], x.strides[1]},
                    {other.strides[first], other.strides[first + 1]},
                    other.strides[0],
                    {},
                    {}};
  if (!has_contiguous_axis(g.rows, g.inner, g.x) ||
      !has_contiguous_axis(gradient ? g.rows : g.inner, g.columns, g.other))
    return {};
  constexpr int64_t known_later = DNNL_RUNTIME_DIM_VAL;
  auto found =
      describe<dnnl::matmul>(primitive_attributes(), g.a(known_later), g.b(known_later), g.c(known_later));
  if (!found) return {};
  const std::string implementation = found->primitive_desc.impl_info_str();
  if (implementation.find("ref") != std::string::npos) return {};
  std::vector<Candidate> candidates;
  add_candidate(candidates, [&] {
    g.primitive.emplace(found->primitive_desc);
    g.scratchpad = found->primitive_desc.scratchpad_desc();
    size_t scratch = aligned(g.scratchpad.get_size());
    const MergedInput ends(request, 2, {}, scratch);
    return function_candidate(
        "oneDNN grouped " + implementation, scratch, [g, ends, threads = cpu_threads()](Buffers buffers) {
          use_openmp_threads(threads);
          const auto* const each = ends.resolve<int64_t>(buffers);
          std::vector<int64_t> bounds(static_cast<size_t>(g.groups));
          for (int64_t e = 0; e < g.groups; ++e) bounds[static_cast<size_t>(e)] = each[e * ends.stride(0)];
          check_group_ends(bounds, g.rows);
          g.run(bounds, static_cast<const std::byte*>(buffers[0]), static_cast<const std::byte*>(buffers[1]),
                static_cast<std::byte*>(buffers[3]), buffers.size() > 4 ? buffers[4] : nullptr);
        });
  });
  return candidates;
}

namespace {

[[maybe_unused]] const bool onednn_grouped_registered = register_kernels(
    {KernelSource::library, {"grouped_matmul", "grouped_matmul_weight_grad"}, onednn_grouped, serves_none});

}  // namespace

}  // namespace athanor::cpu
