#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

void GpuDevice::open() {
  if (!facts().unusable.empty()) driver_->refuse(facts().unusable, facts().fix);
  driver_->open();
  kernels_ = std::make_unique<GpuQueue>(*this, *driver_, "kernels");
  uploads_ = std::make_unique<GpuQueue>(*this, *driver_, "copies");
  downloads_ = std::make_unique<GpuQueue>(*this, *driver_, "copies");
}

Driver& GpuDevice::driver() {
  std::call_once(opened_, [&] { open(); });
  return *driver_;
}

GpuQueue& GpuDevice::kernels() {
  driver();
  return *kernels_;
}

GpuQueue& GpuDevice::uploads() {
  driver();
  return *uploads_;
}

GpuQueue& GpuDevice::downloads() {
  driver();
  return *downloads_;
}

}  // namespace athanor::gpu
