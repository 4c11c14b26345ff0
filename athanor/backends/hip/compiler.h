// hipRTC, which compiles HIP's kernels; loaded while the program runs.
#pragma once
#include "athanor/backends/gpu/runtime_compiler.h"

namespace athanor::hip {

/// The compiler of the HIP runtime that is loaded; if there is none, `missing` says why.
const gpu::CompilerApi& hip_compiler();

}  // namespace athanor::hip
