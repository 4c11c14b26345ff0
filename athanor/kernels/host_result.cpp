#include "athanor/kernels/host_result.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/finish_by_loop.h"
#include "athanor/kernels/operand_places.h"
#include "athanor/kernels/prologue.h"
#include "athanor/kernels/row_pitch.h"
#include "athanor/kernels/trial.h"

namespace athanor {
namespace {

// The operand as the host's kernels of whole ops take it.
OperandDesc row_major(OperandDesc operand) {
  operand.strides = contiguous_strides(operand.shape);
  return operand;
}

// A result that lies in memory as `from`, which is dense, says, in the order of memory that `output` has.
HostArray placed(const HostArray& result, const OperandDesc& from, const OperandDesc& output) {
  HostArray ordered(output.dtype, Shape{reach_of(output)});
  const bool rows = output.strides.back() == 1 && from.strides.back() == 1;
  const int64_t row = rows ? std::max<int64_t>(1, output.shape[-1]) : 1;  // together
  const auto size = size_of(output.dtype), bytes = static_cast<size_t>(row) * size;
  for (int64_t i = 0; i < output.shape.size(); i += row)
    std::memcpy(ordered.bytes.data() + static_cast<size_t>(element_offset(output, i)) * size,
                result.bytes.data() + static_cast<size_t>(element_offset(from, i)) * size, bytes);
  return ordered;
}

// Has an epilogue read the op's result row-major, not in the order of `result`. False if it cannot, because
// a dimension of its loop is no part of one of the result's axes.
bool read_in_rows(LoopProgram& epilogue, const OperandDesc& result) {
  const Ints rows = contiguous_strides(result.shape);
  for (LoopOperand& operand : epilogue.operands) {
    if (operand.buffer != 0) continue;
    for (size_t d = 0; d < epilogue.space.size(); ++d) {
      if (epilogue.space[d] == 1) continue;
      int64_t& stride = operand.strides[d];
      const auto is_part_of = [&](int axis) {
        const int64_t of_axis = result.strides[static_cast<size_t>(axis)], extent = result.shape[axis];
        return extent > 1 && stride % of_axis == 0 && of_axis * extent % (stride * epilogue.space[d]) == 0;
      };
      int axis = 0;
      while (axis < result.shape.rank() && !is_part_of(axis)) ++axis;
      if (axis == result.shape.rank()) return false;
      const auto a = static_cast<size_t>(axis);
      stride = stride / result.strides[a] * rows[a];
    }
  }
  return true;
}

}  // namespace

TrialResults host_result(const KernelRequest& asked) {
  const Device host{};
  Backend& backend = backend_of(host);
  KernelRequest request = without_gaps(asked);
  const bool in_order = asked.op->prim == Prim::none && !backend.takes_strides(*asked.op);
  // An epilogue knows where its own operands lie.
  const bool turned = in_order && request.has_epilogue() && !request.output().dense();
  if (turned && !read_in_rows(request.epilogue, request.output())) return {};
  // So does the loop that computes an input.
  if (in_order && request.prologue && !request.inputs[request.prologue->input].dense()) return {};
  if (in_order) {
    for (size_t i = 0; i < request.own_inputs(); ++i)
      if (request.inputs[i].layout.block == 0) request.inputs[i] = row_major(request.inputs[i]);
    for (OperandDesc& output : request.outputs)
      if (!request.has_epilogue() && output.layout.block == 0) output = row_major(output);
  }
  const bool in_parts = request.has_epilogue() && (turned || !backend.takes_epilogue(host.index, request));
  const KernelRequest computed = without_prologue(request);
  KernelRequest problem = in_parts ? without_epilogue(computed) : computed;
  if (turned) problem.outputs[0] = row_major(problem.outputs[0]);
  auto candidates = backend.candidates(host.index, problem);
  if (candidates.empty()) return {};
  if (in_parts)
    candidates.front() =
        finish_by_loop(candidates.front(), backend.loop_kernel(host.index, request.epilogue), computed);
  if (request.prologue)
    candidates.front() = begin_by_loop(backend.loop_kernel(host.index, request.prologue->program),
                                       candidates.front(), request);
  TrialResults results = Trial(host, request, asked.inputs).whole_result(candidates.front());
  for (size_t o = 0; o < results.size(); ++o) {
    const OperandDesc& output = asked.outputs[o];
    const bool in_rows = in_order && !asked.has_epilogue() && output.layout.block == 0;
    const bool moves = (in_rows && !output.dense()) || has_gaps(output);
    const HostArray ordered = moves ? placed(results[o], request.outputs[o], output) : std::move(results[o]);
    results[o] = compared(output, [&](size_t first, std::span<std::byte> to) {
      std::memcpy(to.data(), ordered.bytes.data() + first, to.size());
    });
  }
  return results;
}

}  // namespace athanor
