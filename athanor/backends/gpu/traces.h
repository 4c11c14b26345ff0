// Records when commands ran on a device, for a trace.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "athanor/backends/gpu/driver.h"

namespace athanor::gpu {

class GpuDevice;

class Traces {
 public:
  explicit Traces(GpuDevice& device) : device_(device) {}
  Traces(const Traces&) = delete;
  Traces& operator=(const Traces&) = delete;

  /// Shows a command in the lane "opencl:0 <lane>" once it has run. Takes over the span.
  void add(const Span& span, const std::string& lane, std::string name);
  /// Adds commands that have run to the trace.
  void finish();

 private:
  struct Traced {
    Span span;
    std::string lane, name;
  };
  GpuDevice& device_;
  std::mutex mutex_;
  std::vector<Traced> traced_;
  double clock_offset_ = 0;  // from the device's clock to trace_clock(), once known
  bool clock_known_ = false;
};

}  // namespace athanor::gpu
