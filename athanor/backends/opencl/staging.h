// Pinned host memory for uploads.
#pragma once
#include <array>
#include <functional>
#include <mutex>

#include "athanor/backends/opencl/api.h"

namespace athanor::opencl {

class ClDevice;

/// A card can copy only from memory that cannot be swapped out. From other memory its driver copies first,
/// and the whole transfer waits. So uploads go in pieces through two halves of pinned memory: one is filled
/// while the card copies the other. They exist until the process ends.
class Staging {
 public:
  static constexpr size_t half_bytes = size_t{4} << 20;

  explicit Staging(ClDevice& device) : device_(device) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies to a buffer, after the event `after` (nullptr: at once). Returns when `source` has been read and
  /// the buffer has been written. Throws Error(device|out_of_memory).
  void upload(cl_command_queue queue, cl_mem buffer, size_t offset, const void* source, size_t count,
              cl_event after);

 private:
  struct Half {
    cl_mem buffer = nullptr;
    void* memory = nullptr;   // where it is mapped
    cl_event sent = nullptr;  // the last copy out of it
  };
  void make(Half& half);
  /// Waits until the last copy out of it is done.
  void wait_for(Half& half);

  ClDevice& device_;
  std::mutex mutex_;
  std::array<Half, 2> halves_;
};

}  // namespace athanor::opencl
