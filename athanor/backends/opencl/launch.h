// Kernels of generated code on an OpenCL device.
#pragma once
#include "athanor/backends/opencl/device.h"
#include "athanor/kernels/kernel.h"

namespace athanor::opencl {

/// The candidate as a kernel that can run. Nothing is compiled before prepare() or the first run. `buffers`
/// is how many buffers it is launched with besides scratch; `op` and `extent` are named when a kernel reports
/// a fault.
Candidate make_candidate(ClDevice& device, GpuCandidate candidate, const FaultSite& site);

}  // namespace athanor::opencl
