#include "athanor/kernels/gpu/loop_behind.h"

#include <algorithm>
#include <utility>

namespace athanor::gpu {

static size_t whole_blocks(size_t bytes) {
  constexpr size_t block = 256;
  return (bytes + block - 1) / block * block;
}

void append_loop(GpuCandidate& candidate, const LoopProgram& program, GpuLaunch::Argument first,
                 const std::vector<GpuLaunch::Argument>& rest, int scratch_buffer, const GpuTraits& traits) {
  GpuCandidate loop = gpu_loop_candidates(program, traits).front();
  const size_t start = whole_blocks(candidate.scratch_bytes);
  for (GpuLaunch& launch : loop.launches) {
    for (GpuLaunch::Argument& argument : launch.arguments) {
      const GpuLaunch::Argument to = argument.buffer == 0 ? first
                                     : argument.buffer == program.buffers
                                         ? GpuLaunch::Argument{scratch_buffer, static_cast<int64_t>(start)}
                                         : rest[static_cast<size_t>(argument.buffer) - 1];
      argument = {to.buffer, to.byte_offset + argument.byte_offset};
    }
    candidate.launches.push_back(std::move(launch));
  }
  if (loop.scratch_bytes > 0)
    candidate.scratch_bytes = std::max(candidate.scratch_bytes, start + loop.scratch_bytes);
}

GpuCandidate with_loop_behind(GpuCandidate plain, const KernelRequest& request, const GpuTraits& traits) {
  const auto own = static_cast<int>(request.own_inputs()), scratch = request.scratch_buffer();
  const auto with = static_cast<int>(request.with.size()),
             first_with = static_cast<int>(request.inputs.size() + request.first_with());
  // The plain candidate's buffers: the op's inputs, its result, those of `with`, scratch memory.
  const auto result = [&]() -> GpuLaunch::Argument {
    if (!request.unstored) return {static_cast<int>(request.inputs.size())};
    const auto start = static_cast<int64_t>(whole_blocks(plain.scratch_bytes));
    plain.scratch_bytes = static_cast<size_t>(
        start + request.output().reach() * static_cast<int64_t>(size_of(request.output().dtype)));
    return {scratch, start};
  }();
  for (GpuLaunch& launch : plain.launches)
    for (GpuLaunch::Argument& argument : launch.arguments) {
      if (argument.buffer == own)
        argument = {result.buffer, result.byte_offset + argument.byte_offset};
      else if (argument.buffer > own)
        argument.buffer = argument.buffer <= own + with ? first_with + argument.buffer - own - 1 : scratch;
    }
  std::vector<GpuLaunch::Argument> rest;
  for (int buffer = own; buffer < scratch; ++buffer) rest.push_back({buffer});
  append_loop(plain, request.epilogue, result, rest, scratch, traits);
  plain.name += " and a loop";
  return plain;
}

}  // namespace athanor::gpu
