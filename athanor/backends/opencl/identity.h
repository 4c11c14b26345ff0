// The identity of an OpenCL device, by which it is matched with the same GPU in other backends.
#pragma once
#include "athanor/backends/opencl/api.h"  // first: it sets the version of OpenCL

#include <string>

namespace athanor::opencl {

/// Each "" where the driver does not say.
struct Identity {
  std::string pci;   // "0000:03:00.0"
  std::string uuid;  // "GPU-6f2c9a51-...", of NVIDIA's driver, as CUDA says it
  std::string arch;  // "gfx1030", "sm_89"
};
Identity identity_of(cl_device_id id);

}  // namespace athanor::opencl
