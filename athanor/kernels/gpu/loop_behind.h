// Generated loops behind the launches of a template.
#pragma once
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

/// Adds a loop's launches. Its buffer 0 is `first`, the others are `rest`; its scratch memory lies behind the
/// candidate's own.
void append_loop(GpuCandidate& candidate, const LoopProgram& program, GpuLaunch::Argument first,
                 const std::vector<GpuLaunch::Argument>& rest, int scratch_buffer, const GpuTraits& traits);

/// Makes a candidate for the request from `plain`, a candidate for it without its epilogue, which a loop then
/// computes. The op's result goes to the request's first output, or to scratch memory if it is not stored.
GpuCandidate with_loop_behind(GpuCandidate plain, const KernelRequest& request, const GpuTraits& traits);

}  // namespace athanor::gpu
