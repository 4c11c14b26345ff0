// NVRTC, which compiles CUDA's kernels; loaded while the program runs.
#pragma once
#include <string>

#include "athanor/backends/gpu/runtime_compiler.h"

namespace athanor::cuda {

/// An NVRTC that compiles for the architecture ("sm_86") and whose release the driver's CUDA (12040 is 12.4)
/// supports. If there is none, the result's `missing` says why.
const gpu::CompilerApi& compiler_for(int cuda_version, const std::string& architecture);

}  // namespace athanor::cuda
