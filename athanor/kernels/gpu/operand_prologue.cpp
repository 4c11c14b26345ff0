#include "athanor/kernels/gpu/operand_prologue.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace athanor::gpu {
namespace {

/// The request's buffer that is the prologue's buffer `b`.
int buffer_of(const KernelRequest& request, int b) {
  const auto inputs = static_cast<int>(request.prologue->inputs());
  return b == inputs ? static_cast<int>(request.prologue->input)
                     : static_cast<int>(request.inputs.size()) - inputs + b;
}

}  // namespace

std::optional<OperandPrologue> operand_prologue(const KernelRequest& request, std::string name) {
  if (!request.prologue) return {};
  LoopProgram program = request.prologue->program;
  const auto inputs = static_cast<int>(request.prologue->inputs());
  const Ints& places = program.operands[static_cast<size_t>(program.stores[0].operand)].strides;
  // Kernels read 16 bytes at once, of elements of two or four.
  const auto main = std::ranges::find_if(program.operands, [&](const LoopOperand& o) {
    const bool read_otherwise = std::ranges::any_of(program.operands, [&](const LoopOperand& other) {
      return other.buffer == o.buffer && (other.strides != o.strides || other.offset != o.offset);
    });
    const bool fits = o.dtype == DType::f32 || o.dtype == DType::f16 || o.dtype == DType::bf16;
    return o.buffer != inputs && o.strides == places && o.offset == 0 && fits && !read_otherwise;
  });
  if (main == program.operands.end()) return {};
  const int first = main->buffer;
  const OperandDesc& described = request.inputs[static_cast<size_t>(buffer_of(request, first))];
  OperandPrologue prologue{{buffer_of(request, first)}, main->dtype, described.alignment, {}};
  // The element as it is read becomes buffer 0.
  std::vector<GpuLaunch::Argument> arguments;
  std::vector<int64_t> alignments;
  for (int b = 0; b <= inputs; ++b) {
    if (b == first) continue;
    arguments.push_back({buffer_of(request, b)});
    if (b < inputs)
      alignments.push_back(request.inputs[static_cast<size_t>(buffer_of(request, b))].alignment);
  }
  for (LoopOperand& operand : program.operands)
    operand.buffer = operand.buffer == first ? 0 : operand.buffer + (operand.buffer < first ? 1 : 0);
  prologue.elements = ResultEpilogue(program, std::move(arguments), std::move(alignments), std::move(name));
  return prologue;
}

GpuCandidate with_loop_before(GpuCandidate plain, const KernelRequest& request, const GpuTraits& traits) {
  const LoopProgram& program = request.prologue->program;
  const auto inputs = static_cast<int>(request.prologue->inputs());
  const int before = static_cast<int>(request.inputs.size()) - inputs;
  for (GpuLaunch& launch : plain.launches)
    for (GpuLaunch::Argument& argument : launch.arguments)
      if (argument.buffer >= before) argument.buffer += inputs;
  GpuCandidate loop = gpu_loop_candidates(program, traits).front();
  for (GpuLaunch& launch : loop.launches)
    for (GpuLaunch::Argument& argument : launch.arguments)
      argument.buffer =
          argument.buffer == program.buffers ? request.scratch_buffer() : buffer_of(request, argument.buffer);
  std::ranges::move(plain.launches, std::back_inserter(loop.launches));
  plain.launches = std::move(loop.launches);
  plain.scratch_bytes = std::max(plain.scratch_bytes, loop.scratch_bytes);
  plain.name = "a loop and " + plain.name;
  return plain;
}

}  // namespace athanor::gpu
