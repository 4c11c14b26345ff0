// Launches that an OpenCL device keeps and runs again in one call: cl_khr_command_buffer.
#pragma once
#include "athanor/backends/opencl/api.h"  // first: it sets the version of OpenCL

#include <CL/cl_ext.h>

#include <map>
#include <string>
#include <vector>

#include "athanor/backends/gpu/driver.h"

namespace athanor::opencl {

struct Recording {
  cl_command_buffer_khr commands;
  std::vector<cl_kernel> kernels = {};  // of the commands
};

class Recorder {
 public:
  /// If the driver lacks the extension for in-order queues, possible() is false: call nothing else then.
  Recorder(cl_platform_id platform, cl_device_id id);
  bool possible() const { return enqueue_ != nullptr; }
  /// Whether a run may be enqueued while the one before is under way.
  bool replays_overlap() const { return at_once_; }

  // Each returns OpenCL's code. Meanwhile no other thread may call them for the same queue.
  cl_int begin(cl_command_queue queue);
  /// Whether launches of the queue are kept now.
  bool records(cl_command_queue queue) const { return open_.contains(queue); }
  /// Replaces the kernel by one for the next command alone. PoCL 3.1 reads a kernel's arguments when a
  /// command is replayed, and the kernel has been launched with other arguments by then.
  cl_int make_own(cl_command_queue queue, cl_kernel& kernel);
  cl_int add(cl_command_queue queue, cl_kernel kernel, const size_t* all, const size_t* group);
  /// nullptr if the driver refuses; `why` is then its error.
  gpu::Captured end(cl_command_queue queue, std::string& why);
  cl_int replay(cl_command_queue queue, gpu::Captured captured) const;
  void release(gpu::Captured captured) const noexcept;

 private:
  bool at_once_ = false;
  clCreateCommandBufferKHR_fn create_ = nullptr;
  clCommandNDRangeKernelKHR_fn add_ = nullptr;
  clFinalizeCommandBufferKHR_fn finalize_ = nullptr;
  clEnqueueCommandBufferKHR_fn enqueue_ = nullptr;
  clReleaseCommandBufferKHR_fn release_ = nullptr;
  std::map<cl_command_queue, Recording> open_;
};

}  // namespace athanor::opencl
