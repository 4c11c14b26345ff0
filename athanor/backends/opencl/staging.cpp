#include "athanor/backends/opencl/staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "athanor/backends/opencl/device.h"
#include "athanor/base/text.h"

namespace athanor::opencl {

void Staging::make(Half& half) {
  const std::string doing = fmt::format("cannot pin {} of memory for uploads to {}", format_bytes(half_bytes),
                                        to_string(device_.device()));
  cl_int code = CL_SUCCESS;
  half.buffer = api().CreateBuffer(device_.context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, half_bytes,
                                   nullptr, &code);
  check(code, doing);
  const std::scoped_lock lock(device_.mutex);
  half.memory = api().EnqueueMapBuffer(device_.upload_queue(), half.buffer, CL_TRUE, CL_MAP_WRITE, 0,
                                       half_bytes, 0, nullptr, nullptr, &code);
  if (code != CL_SUCCESS) api().ReleaseMemObject(std::exchange(half.buffer, nullptr));
  check(code, doing);
}

void Staging::wait_for(Half& half) {
  if (half.sent == nullptr) return;
  const cl_int code = api().WaitForEvents(1, &half.sent);
  api().ReleaseEvent(half.sent);
  half.sent = nullptr;
  check(code, fmt::format("cannot write to {}", to_string(device_.device())));
}

void Staging::upload(cl_command_queue queue, cl_mem buffer, size_t offset, const void* source, size_t count,
                     cl_event after) {
  const std::scoped_lock one_at_a_time(mutex_);
  const auto* from = static_cast<const std::byte*>(source);
  for (size_t done = 0, turn = 0; done < count; ++turn) {
    Half& half = halves_[turn % halves_.size()];
    if (half.memory == nullptr) make(half);
    wait_for(half);
    const size_t piece = std::min(count - done, half_bytes);
    std::memcpy(half.memory, from + done, piece);
    {
      const std::scoped_lock lock(device_.mutex);
      check(
          api().EnqueueWriteBuffer(queue, buffer, CL_FALSE, offset + done, piece, half.memory,
                                   after != nullptr ? 1 : 0, after != nullptr ? &after : nullptr, &half.sent),
          fmt::format("cannot write {} to {}", format_bytes(piece), to_string(device_.device())));
      api().Flush(queue);
    }
    device_.trace(half.sent, "copies", fmt::format("upload {}", format_bytes(piece)));
    done += piece;
  }
  for (Half& half : halves_) wait_for(half);
}

}  // namespace athanor::opencl
