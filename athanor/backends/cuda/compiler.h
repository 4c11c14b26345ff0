// NVRTC, which compiles CUDA's kernels; loaded while the program runs.
#pragma once
#include <string>

#include "athanor/backends/gpu/runtime_compiler.h"

namespace athanor::cuda {

/// An NVRTC that compiles for the architecture ("sm_86"), where there is one of a release that the driver's
/// CUDA (12040 is 12.4) is new enough for; else why there is none.
const gpu::CompilerApi& compiler_for(int cuda_version, const std::string& architecture);

}  // namespace athanor::cuda
