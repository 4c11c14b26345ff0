// OpenCL devices: all devices of all platforms.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/backends/opencl/api.h"
#include "athanor/backends/opencl/memory.h"
#include "athanor/backends/opencl/staging.h"
#include "athanor/device/device.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::opencl {

class Program;

/// What a running kernel reported: see FAULT in the kernel language.
struct FaultSite {
  std::string op;
  int64_t extent = 0;
  std::string step = {}, where = {};  // in the plan that launched it last, and the user's line
};

/// A device with its context and queues, made at its first use. All threads share it: `mutex` guards the
/// queues.
class ClDevice {
 public:
  ClDevice(cl_platform_id platform, cl_device_id id, Device device);

  const DeviceInfo& info() const { return info_; }
  const GpuTraits& traits() const { return traits_; }
  Device device() const { return info_.device; }
  cl_device_id id() const { return id_; }
  cl_ulong largest_buffer() const { return largest_buffer_; }
  /// Everything that compiled programs depend on: names and versions of platform, device and driver.
  const std::string& fingerprint() const { return fingerprint_; }

  cl_context context();
  /// Kernels and copies, in order.
  cl_command_queue queue();
  /// Uploads, at the same time.
  cl_command_queue upload_queue();

  /// Gives a buffer an artificial address range. An address tells the buffer and the offset in it.
  uintptr_t add_buffer(cl_mem buffer, size_t bytes);
  void remove_buffer(uintptr_t address);
  struct Place {
    cl_mem buffer = nullptr;
    cl_ulong offset = 0;
  };
  /// The buffer and offset of an address, for a launch. Throws Error(internal) if no buffer has the address.
  Place find(const void* address);
  /// Whether a launch was given the buffer at this address.
  bool was_launched_with(const void* address);

  /// The buffer to which kernels report faults, and the code by which a launch is named there.
  cl_mem fault_buffer();
  int fault_code(const FaultSite& site);
  /// Called after launches that may report a fault: the next wait checks.
  void expect_faults(int code);
  /// Waits for everything enqueued. Throws Error if the device failed or kernels reported faults.
  void wait();

  /// While a Trace exists: shows the command in the lane "opencl:0 <lane>". Does not take over a reference.
  void trace(cl_event event, const char* lane, std::string name);

  Pool pool;
  Staging staging{*this};
  std::mutex mutex;
  /// Compiled programs of this process, by source.
  std::map<std::string, std::shared_ptr<const Program>> programs;
  std::mutex programs_mutex;
  /// If set, launches append their events here; its owner releases them.
  std::vector<cl_event>* recorded = nullptr;

 private:
  void start();

  cl_platform_id platform_;
  cl_device_id id_;
  DeviceInfo info_;
  GpuTraits traits_;
  std::string fingerprint_;
  cl_ulong largest_buffer_ = 0;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr, upload_queue_ = nullptr;
  std::once_flag started_;
  std::mutex addresses_mutex_;
  struct Range {
    cl_mem buffer;
    size_t bytes;
    bool launched = false;
  };
  std::map<uintptr_t, Range> addresses_;
  uintptr_t next_address_ = uintptr_t{1} << 32;
  cl_mem fault_buffer_ = nullptr;
  std::vector<FaultSite> fault_sites_;
  bool faults_possible_ = false;

  // Commands whose times are read after they have run.
  struct Traced {
    cl_event event;
    std::string lane, name;
  };
  void finish_traces();
  std::mutex traces_mutex_;
  std::vector<Traced> traced_;
  double clock_offset_ = 0;  // from the device's clock to trace_clock(), once known
  bool clock_known_ = false;
};

/// All devices, in the order of platforms. {} without OpenCL.
const std::vector<std::unique_ptr<ClDevice>>& devices(uint8_t provider);

}  // namespace athanor::opencl
