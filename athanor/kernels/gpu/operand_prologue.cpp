#include "athanor/kernels/gpu/operand_prologue.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "athanor/kernels/gpu/index_code.h"

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

void declare_ready(Code& code, const ResultEpilogue& prologue, const PrologueRun& run) {
  // Inputs whose elements lie together too are read at once.
  const auto vectors = prologue.vectors(run.count);
  const auto name_of = [](const ResultEpilogue::Vector& v, int64_t part) {
    return fmt::format("in{}_{}", v.operand, part);
  };
  const auto registers_of = [](const ResultEpilogue::Vector& v) { return std::min<int64_t>(v.registers, 4); };
  const auto elements_of = [&](const ResultEpilogue::Vector& v) {
    return registers_of(v) * 4 / static_cast<int64_t>(size_of(v.type));
  };
  for (const ResultEpilogue::Vector& v : vectors)
    for (int64_t part = 0; part * registers_of(v) < v.registers; ++part) {
      code.line(registers_of(v) == 1 ? fmt::format("u32 {}[1];", name_of(v, part))
                                     : fmt::format("u32x{} {};", registers_of(v), name_of(v, part)));
      code.line(fmt::format("READ_ALIGNED({}, {}, {});", registers_of(v), name_of(v, part),
                            plus(prologue.place(v, run.at, run.row, run.column), part * elements_of(v))));
    }
  for (int64_t e = 0; e < run.count; ++e) {
    std::vector<std::string> read;
    for (const ResultEpilogue::Vector& v : vectors)
      read.push_back(fmt::format("ELEMENT({}, {}, {})", language_name(v.type), name_of(v, e / elements_of(v)),
                                 e % elements_of(v)));
    code.line(fmt::format(
        "const f32 ready{} = {};", e,
        prologue.call(run.element(e), plus(run.at, e * run.at_step), plus(run.row, e * run.row_step),
                      plus(run.column, e * run.column_step), read)));
  }
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
