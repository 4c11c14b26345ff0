// Programs: kernels compiled for a device, from source or from a binary that an earlier process stored.
#pragma once
#include <memory>
#include <string>

#include "athanor/backends/opencl/device.h"

namespace athanor::opencl {

/// A compiled launch. Its kernel holds arguments, so set and enqueue them under the device's mutex.
class Program {
 public:
  Program(ClDevice& device, const GpuLaunch& launch);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  cl_kernel kernel() const { return kernel_; }

 private:
  cl_program program_ = nullptr;
  cl_kernel kernel_ = nullptr;
};

/// The program of a launch. Compiled once for each process, or once for each machine if binaries can be
/// stored. Several threads may call this. Throws Error(device) with the compiler's log.
std::shared_ptr<const Program> program_for(ClDevice& device, const GpuLaunch& launch);

}  // namespace athanor::opencl
