// Programs: kernels compiled for a device, from source or from a binary that an earlier process left.
#pragma once
#include <memory>
#include <string>

#include "athanor/backends/opencl/device.h"

namespace athanor::opencl {

/// A compiled launch. Its kernel holds arguments: set and enqueue under the device's mutex.
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

/// The program of a launch: compiled once a process, and once a machine where binaries can be kept. May be
/// called from several threads. Throws Error(device) with the compiler's log.
std::shared_ptr<const Program> program_for(ClDevice& device, const GpuLaunch& launch);

}  // namespace athanor::opencl
