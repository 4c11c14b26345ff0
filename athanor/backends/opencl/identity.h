// The identity of an OpenCL device, by which it is matched with the same GPU in other backends.
#pragma once
#include "athanor/backends/opencl/api.h"  // first: it sets the version of OpenCL

#include <string>

namespace athanor::opencl {

/// Each is "" if the driver does not report it.
struct Identity {
  std::string pci;   // "0000:03:00.0"
  std::string uuid;  // "GPU-6f2c9a51-...", from NVIDIA's driver, as CUDA reports it
  std::string arch;  // "gfx1030", "sm_89"
};
Identity identity_of(cl_device_id id);

}  // namespace athanor::opencl
