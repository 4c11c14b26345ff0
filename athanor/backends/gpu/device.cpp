#include "athanor/backends/gpu/device.h"

#include <cstdlib>
#include <exception>

namespace athanor::gpu {
namespace {

// Devices that are open. A program may end while they work, and a driver need not survive that.
std::mutex open_mutex;
std::vector<GpuDevice*>& open_devices() {
  static auto* const all = new std::vector<GpuDevice*>;  // never destroyed, as devices are not
  return *all;
}

void finish_work() {
  const std::scoped_lock lock(open_mutex);
  for (GpuDevice* device : open_devices())
    for (GpuQueue* queue : {&device->kernels(), &device->uploads(), &device->downloads()}) try {
        device->driver().finish(queue->stream());
      } catch (const std::exception&) {
        // Nobody is left who could be told.
      }
}

}  // namespace

void GpuDevice::open() {
  driver_->open();
  kernels_ = std::make_unique<GpuQueue>(*this, *driver_, "kernels");
  uploads_ = std::make_unique<GpuQueue>(*this, *driver_, "copies");
  downloads_ = std::make_unique<GpuQueue>(*this, *driver_, "copies");
  const std::scoped_lock lock(open_mutex);
  // After the driver was loaded, so that it runs before the driver's own end.
  if (open_devices().empty()) std::atexit(finish_work);
  open_devices().push_back(this);
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
