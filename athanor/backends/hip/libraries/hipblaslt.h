// hipBLASLt's functions and numbers.
#pragma once
#include "athanor/backends/gpu/libraries/blas_lt.h"
#include "athanor/base/os/library.h"

namespace athanor::hip {

/// Throws Error(device) if the library lacks a function.
gpu::BlasLtApi read_hipblas_lt(const os::Library& library);

}  // namespace athanor::hip
