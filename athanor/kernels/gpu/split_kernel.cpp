// Takes the last launch from a kernel, if it only joins parts, so that it can run later.
#include <algorithm>
#include <utility>

#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor {

std::optional<SplitKernel> KernelLanguageBackend::split_kernel(int device, const Candidate& kernel,
                                                               size_t buffers) {
  const GpuCandidate* const whole = kernel.kernel ? kernel.kernel->generated() : nullptr;
  if (whole == nullptr || whole->launches.size() < 2 || !whole->launches.back().joining ||
      std::ranges::any_of(whole->launches, &GpuLaunch::can_fault))
    return {};
  const GpuLaunch& last = whole->launches.back();
  const GpuLaunch::Joining& joining = *last.joining;
  const auto scratch = static_cast<int>(buffers);
  const GpuLaunch::Argument parts = last.arguments[joining.parts];
  if (parts.buffer != scratch) return {};

  // The parts lie in scratch memory: other scratch before them stays where it is, and what lies behind them
  // keeps its place, too. If nothing lies behind them, less scratch memory is needed.
  GpuCandidate first = *whole;
  first.launches.pop_back();
  bool writes_parts = false;
  for (GpuLaunch& launch : first.launches)
    for (GpuLaunch::Argument& argument : launch.arguments) {
      if (argument.buffer != scratch) continue;
      const int64_t behind = argument.byte_offset - parts.byte_offset;
      if (behind > 0 && behind < joining.bytes) return {};
      if (behind == 0)
        argument = {scratch, 0}, writes_parts = true;
      else
        argument.buffer = scratch + 1;
    }
  if (!writes_parts) return {};
  if (static_cast<int64_t>(first.scratch_bytes) <= parts.byte_offset + joining.bytes)
    first.scratch_bytes = static_cast<size_t>(parts.byte_offset);

  SplitKernel all{access(device).make(std::move(first)), joining.bytes, joining.program, {}};
  all.first.name = kernel.name;
  for (const GpuLaunch::Argument& place : joining.places) {
    const GpuLaunch::Argument& from = last.arguments[static_cast<size_t>(place.buffer)];
    const int64_t start = from.byte_offset + place.byte_offset;
    all.places.push_back(
        {static_cast<size_t>(from.buffer), from.buffer == scratch ? start - parts.byte_offset : start});
  }
  return all;
}

}  // namespace athanor
