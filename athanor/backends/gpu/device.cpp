#include "athanor/backends/gpu/device.h"

#include "athanor/backends/gpu/unit_trials.h"
#include "athanor/base/error.h"

namespace athanor::gpu {

void GpuDevice::open() {
  if (!facts().unusable.empty()) driver_->refuse(facts().unusable, facts().fix);
  driver_->open();
  kernels_ = std::make_unique<GpuQueue>(*this, *driver_, "kernels");
  copies_in_ = std::make_unique<GpuQueue>(*this, *driver_, "copies in");
  copies_out_ = std::make_unique<GpuQueue>(*this, *driver_, "copies out");
  reads_ = std::make_unique<GpuQueue>(*this, *driver_, "reads");
  driver_->locate = [queue = kernels_.get()](const Error& error) { return queue->located(error); };
}

Driver& GpuDevice::driver() {
  std::call_once(opened_, [&] { open(); });
  return *driver_;
}

const GpuTraits& GpuDevice::traits() {
  std::call_once(tried_, [&] {
    traits_ = facts().traits;
    if (facts().units_to_try.empty() || !facts().unusable.empty()) return;
    try {
      for (MatrixUnit& unit : units_that_work(*this, traits_, facts().units_to_try))
        (unit.of_lanes() ? lane_units_ : matrix_units_).push_back(unit);
    } catch (const Error&) {
      return;  // it cannot be opened: its first use says why
    }
    traits_.lane_units = lane_units_;
    traits_.matrix_units = matrix_units_;
    traits_.registers = !lane_units_.empty() || !matrix_units_.empty();
  });
  return traits_;
}

void GpuDevice::set_traits(const GpuTraits& traits) {
  GpuDevice::traits();
  traits_ = traits;
}

GpuQueue& GpuDevice::kernels() {
  driver();
  return *kernels_;
}

GpuQueue& GpuDevice::copies_in() {
  driver();
  return *copies_in_;
}

GpuQueue& GpuDevice::copies_out() {
  driver();
  return *copies_out_;
}

GpuQueue& GpuDevice::reads() {
  driver();
  return *reads_;
}

}  // namespace athanor::gpu
