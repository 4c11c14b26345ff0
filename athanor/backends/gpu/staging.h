// Pinned host memory that uploads go through.
#pragma once
#include <array>
#include <memory>
#include <mutex>

#include "athanor/backends/gpu/driver.h"

namespace athanor::gpu {

class GpuDevice;
class GpuQueue;

/// A card fetches by itself only from memory that cannot be swapped out; from any other its driver copies
/// first, with the whole transfer waiting. So uploads go in pieces through two halves of such memory: one is
/// filled while the other is on its way. They are kept for as long as the process lives.
class Staging {
 public:
  static constexpr size_t half_bytes = size_t{4} << 20;

  explicit Staging(GpuDevice& device) : device_(device) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Returns when `source` has been read; the last pieces may still be on their way.
  void upload(GpuQueue& queue, Place to, const void* source, size_t bytes);

 private:
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
