// hipRTC, which compiles HIP's kernels; loaded while the program runs.
#pragma once
#include "athanor/backends/gpu/runtime_compiler.h"

namespace athanor::hip {

/// That of the HIP runtime that is loaded, or why there is none.
const gpu::CompilerApi& hip_compiler();

}  // namespace athanor::hip
