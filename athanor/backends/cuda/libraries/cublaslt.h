// cuBLASLt's functions and numbers.
#pragma once
#include "athanor/backends/gpu/libraries/blas_lt.h"
#include "athanor/base/os/library.h"

namespace athanor::cuda {

/// Throws Error(device) if the library is too old or lacks a function.
gpu::BlasLtApi read_cublas_lt(const os::Library& library);

}  // namespace athanor::cuda
