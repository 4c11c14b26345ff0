// A GPU in use: its driver with queues, memory, programs, and what its kernels report.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/backends/gpu/faults.h"
#include "athanor/backends/gpu/landings.h"
#include "athanor/backends/gpu/library.h"
#include "athanor/backends/gpu/pool.h"
#include "athanor/backends/gpu/queue.h"
#include "athanor/backends/gpu/staging.h"
#include "athanor/backends/gpu/traces.h"

namespace athanor::gpu {

class LoadedModule;
class Program;

/// Opened when it is first used. Shared by all threads.
class GpuDevice {
 public:
  explicit GpuDevice(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

  const Facts& facts() const { return driver_->facts(); }
  /// What kernels may use: the driver's facts and, if facts().units_to_try has some, the units that were
  /// found to work. Trying them opens the device. A device that cannot be used has the driver's facts only.
  const GpuTraits& traits();
  /// For tests: sets what kernels may use from now on.
  void set_traits(const GpuTraits& traits);
  Device id() const { return facts().info.device; }
  std::string name() const { return to_string(id()); }

  /// Throws Error(device) if the device cannot be used.
  Driver& driver();
  /// The queue for kernels, and queues for copies from and to other devices, which run beside it.
  GpuQueue& kernels();
  GpuQueue& copies_in();
  GpuQueue& copies_out();
  /// The queue for what the host reads and waits for.
  GpuQueue& reads();

  Pool pool{*this};
  Staging staging{*this, 2, size_t{4} << 20};
  /// For copies between devices. They may run late, after kernels, so that many small ones are under way.
  Staging crossings{*this, 16, size_t{1} << 20};
  Landings landings{*this};
  Faults faults{*this};
  Traces traces{*this};
  Libraries libraries{*this};
  /// Compiled programs of this process, by options and source. They stay when nothing holds them, because no
  /// driver must be called while the program ends: see unload_unused_programs().
  std::map<std::string, std::shared_ptr<const Program>> programs;
  std::mutex programs_mutex;
  /// Programs of several kernels that were loaded from the cache, by their keys there.
  std::map<std::string, std::weak_ptr<LoadedModule>> modules;
  std::mutex modules_mutex;

 private:
  void open();
  std::unique_ptr<Driver> driver_;
  std::once_flag opened_, tried_;
  GpuTraits traits_;
  std::vector<MatrixUnit> matrix_units_, lane_units_;  // those of traits_
  std::unique_ptr<GpuQueue> kernels_, copies_in_, copies_out_, reads_;
};

}  // namespace athanor::gpu
