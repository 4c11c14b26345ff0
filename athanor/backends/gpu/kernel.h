// Kernels of generated code on a GPU.
#pragma once
#include "athanor/backends/gpu/device.h"
#include "athanor/kernels/kernel.h"

namespace athanor::gpu {

/// The candidate as a kernel that can run. Nothing is compiled before prepare() or the first launch. `site`
/// is named when a kernel reports a fault.
Candidate make_candidate(GpuDevice& device, GpuCandidate candidate, const FaultSite& site);

/// The resources that each launch of the candidate takes; compiles it. Only if Facts::tells_resources.
std::vector<KernelResources> resources_of(GpuDevice& device, const GpuCandidate& candidate);

}  // namespace athanor::gpu
