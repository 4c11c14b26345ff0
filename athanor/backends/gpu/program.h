// Programs: kernels compiled for a device, from source or from a binary that an earlier process left.
#pragma once
#include <memory>
#include <string>

#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

/// A compiled launch.
class Program {
 public:
  Program(GpuDevice& device, const GpuLaunch& launch, const std::string& source);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Function function() const { return function_; }

 private:
  GpuDevice& device_;
  Module module_ = nullptr;
  Function function_ = nullptr;
};

/// The program of a launch: compiled once a process, and once a machine where binaries can be kept. May be
/// called from several threads. Throws Error(device) with the compiler's log.
std::shared_ptr<const Program> program_for(GpuDevice& device, const GpuLaunch& launch);
/// Unloads the programs that no kernel holds, when the device has done all that it was given.
void unload_unused_programs(GpuDevice& device);

}  // namespace athanor::gpu
