// Memory of OpenCL devices.
#pragma once
#include <memory>

#include "athanor/backends/opencl/device.h"

namespace athanor::opencl {

/// Throws Error(out_of_memory) with what was asked and what the device has.
std::shared_ptr<Storage> allocate_memory(ClDevice& device, size_t bytes);

}  // namespace athanor::opencl
