// Kernels of generated code on an OpenCL device.
#pragma once
#include "athanor/backends/opencl/device.h"
#include "athanor/kernels/kernel.h"

namespace athanor::opencl {

/// Makes the candidate a kernel that can run. Nothing is compiled before prepare() or the first run.
/// `buffers` is the number of its buffers without scratch. If a kernel reports a fault, the error names `op`
/// and `extent`.
Candidate make_candidate(ClDevice& device, GpuCandidate candidate, const FaultSite& site);

}  // namespace athanor::opencl
