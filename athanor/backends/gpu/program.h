// Programs: kernels compiled for a device, from source or from a binary that an earlier process left.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

/// A module on the device, with the functions that were found in it.
class LoadedModule {
 public:
  LoadedModule(GpuDevice& device, Module module) : device_(device), module_(module) {}
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  /// The launch's function, under this name. May be called from several threads.
  Function find(const GpuLaunch& launch, const std::string& name);

 private:
  GpuDevice& device_;
  Module module_;
  std::mutex mutex_;
  std::vector<Function> functions_;
};

/// A compiled launch.
class Program {
 public:
  Program(std::shared_ptr<LoadedModule> module, Function function)
      : module_(std::move(module)), function_(function) {}
  Function function() const { return function_; }

 private:
  std::shared_ptr<LoadedModule> module_;
  Function function_;
};

/// The program of a launch: compiled once in each process, or once on a machine if binaries can be kept. May
/// be called from several threads. Throws Error(device) with the compiler's log.
std::shared_ptr<const Program> program_for(GpuDevice& device, const GpuLaunch& launch);
/// Unloads the programs that no kernel holds, after the device has finished its work.
void unload_unused_programs(GpuDevice& device);

/// Compiles these launches, several in a module, and keeps the binaries unless the device is being examined.
/// Launches that are compiled already are left out. If the compiler refuses a module, nothing happens:
/// program_for() will say why. Throws Interrupted.
void compile_together(GpuDevice& device, const std::vector<const GpuLaunch*>& launches);

/// The name in kernels/compile_apart.h of a backend's drivers as compilers, and a device's target there.
std::string driver_compiler(const std::string& backend);
std::string driver_target(GpuDevice& device);
/// What another process asks such a compiler for: the binary; "" if the device is another one here, or if the
/// driver refuses the source. `source`: the launch's options, a new line, and the source.
std::string compile_for_another_process(GpuDevice& device, const std::string& target,
                                        const std::string& source, const std::string& name);

}  // namespace athanor::gpu
