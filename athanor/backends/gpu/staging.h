// Pinned host memory for copies to the device, and for copies between devices that do not reach each other.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "athanor/backends/gpu/driver.h"
#include "athanor/kernels/queue.h"

namespace athanor::gpu {

class GpuDevice;
class GpuQueue;

/// A discrete GPU reads directly only from host memory that cannot be swapped out. For other memory its
/// driver makes a copy first, and the whole transfer waits. So uploads go in pieces through two halves of
/// pinned memory: one is filled while the other is transferred. They are kept until the process ends.
class Staging {
 public:
  static constexpr size_t half_bytes = size_t{4} << 20;

  explicit Staging(GpuDevice& device) : device_(device) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Returns when `source` has been read; the last pieces may still be on their way.
  void upload(GpuQueue& queue, Place to, const void* source, size_t bytes);
  /// The same, from memory of any other device.
  void copy_in(GpuQueue& queue, Place to, const Binding& from, size_t bytes);
  /// Copies from the device. `take` gets a piece, the number of bytes before it, and its size.
  using Take = std::function<void(const void*, size_t, size_t)>;
  void copy_out(GpuQueue& queue, Place from, size_t bytes, const Take& take);

 private:
  /// Fills the halves by turns. `fill` gets a half, the number of bytes before it, and the bytes to fill.
  template <class Fill>
  void send(GpuQueue& queue, Place to, size_t bytes, const Fill& fill);
  struct Half;
  Half& next_half();
  struct Half {
    void* memory = nullptr;
    std::shared_ptr<Event> sent;  // the last copy out of it
  };
  GpuDevice& device_;
  std::mutex mutex_;
  std::array<Half, 2> halves_;
  size_t turn_ = 0;
};

}  // namespace athanor::gpu
