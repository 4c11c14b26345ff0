// Pinned host memory that uploads go through.
#pragma once
#include <array>
#include <functional>
#include <mutex>

#include "athanor/backends/opencl/api.h"

namespace athanor::opencl {

class ClDevice;

/// A card fetches by itself only from memory that cannot be swapped out; from any other its driver copies
/// first, with the whole transfer waiting. So uploads go in pieces through two halves of such memory: one is
/// filled while the other is on its way. They are kept for as long as the process lives.
class Staging {
 public:
  static constexpr size_t half_bytes = size_t{4} << 20;

  explicit Staging(ClDevice& device) : device_(device) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies to a buffer, after the event `after` (nullptr: at once), and returns when `source` has been read
  /// and the buffer written. Throws Error(device|out_of_memory).
  void upload(cl_command_queue queue, cl_mem buffer, size_t offset, const void* source, size_t count,
              cl_event after);

 private:
  struct Half {
    cl_mem buffer = nullptr;
    void* memory = nullptr;   // where it is mapped
    cl_event sent = nullptr;  // the last copy out of it
  };
  void make(Half& half);
  /// Until the last copy out of it is done.
  void wait_for(Half& half);

  ClDevice& device_;
  std::mutex mutex_;
  std::array<Half, 2> halves_;
};

}  // namespace athanor::opencl
