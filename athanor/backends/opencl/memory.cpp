#include "athanor/backends/opencl/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>

#include "athanor/backends/opencl/device.h"
#include "athanor/base/error.h"
#include "athanor/base/os/memory.h"
#include "athanor/base/text.h"

namespace athanor::opencl {
namespace {

constexpr size_t most_kept = size_t{512} << 20;

// Eight sizes for each doubling: little memory is wasted, and similar sizes share blocks.
size_t size_class(size_t bytes) {
  constexpr size_t least = 256;
  const size_t step = std::max(least, std::bit_floor(std::max<size_t>(bytes, 1)) / 8);
  return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

class ClStorage final : public Storage {
 public:
  ClStorage(ClDevice& device, Pool::Block block, size_t bytes)
      : Storage(device.device(), bytes, reinterpret_cast<void*>(device.add_buffer(block.buffer, bytes))),
        device_(device),
        block_(block) {
    count_memory(device.device(), static_cast<int64_t>(bytes));
  }
  ~ClStorage() override {
    device_.remove_buffer(reinterpret_cast<uintptr_t>(address()));
    device_.pool.give_back(device_, block_);
    count_memory(device(), -static_cast<int64_t>(bytes()));
  }

  void read(void* destination, size_t offset, size_t count) const override {
    device_.wait();
    if (count == 0) return;
    const std::scoped_lock lock(device_.mutex);
    check(api().EnqueueReadBuffer(device_.queue(), block_.buffer, CL_TRUE, offset, count, destination, 0,
                                  nullptr, nullptr),
          fmt::format("cannot read {} from {}", format_bytes(count), to_string(device())));
  }

  void write(const void* source, size_t offset, size_t count) override {
    if (count == 0) return;
    // A buffer that no kernel has used is filled on a separate queue, beside running kernels. All other
    // writes run in order.
    const bool fresh = !device_.was_launched_with(address());
    const bool wait = fresh && block_.released != nullptr;
    cl_command_queue queue = fresh ? device_.upload_queue() : device_.queue();
    {
      const std::scoped_lock lock(device_.mutex);
      // An event of another queue ends only after that queue has been flushed.
      if (wait) check(api().Flush(device_.queue()), fmt::format("{} failed", to_string(device())));
    }
    cl_event after = wait ? block_.released : nullptr;
    if (device_.traits().is_cpu)  // which shares our memory
      copy(queue, offset, source, count, after);
    else
      device_.staging.upload(queue, block_.buffer, offset, source, count, after);
  }

 private:
  void copy(cl_command_queue queue, size_t offset, const void* source, size_t count, cl_event after) {
    const std::string doing = fmt::format("cannot write {} to {}", format_bytes(count), to_string(device()));
    cl_event event = nullptr;
    {
      const std::scoped_lock lock(device_.mutex);
      check(api().EnqueueWriteBuffer(queue, block_.buffer, CL_FALSE, offset, count, source,
                                     after != nullptr ? 1 : 0, after != nullptr ? &after : nullptr, &event),
            doing);
    }
    const cl_int code = api().WaitForEvents(1, &event);
    device_.trace(event, "copies", fmt::format("upload {}", format_bytes(count)));
    api().ReleaseEvent(event);
    check(code, doing);
  }

  ClDevice& device_;
  Pool::Block block_;
};

/// Makes a buffer of the device. Returns nullptr and sets `code` if there is no memory.
///
/// If the device is the host's processor, large buffers lie on huge pages. Drivers for processors use
/// malloc's memory, and kernels that walk many rows at once then wait for page tables (a third of the time of
/// Winograd's transforms).
cl_mem create_buffer(ClDevice& device, size_t bytes, cl_int& code) {
  constexpr std::align_val_t aligned{os::huge_page};
  if (!device.traits().is_cpu || bytes < 2 * os::huge_page)
    return api().CreateBuffer(device.context(), CL_MEM_READ_WRITE, bytes, nullptr, &code);
  void* const memory = ::operator new(bytes, aligned, std::nothrow);
  if (memory == nullptr) {
    code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  os::prefer_huge_pages(memory, bytes);
  cl_mem buffer =
      api().CreateBuffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &code);
  // Enqueued kernels keep a buffer alive until they are done.
  const auto free_memory = [](cl_mem, void* address) { ::operator delete(address, aligned); };
  if (code == CL_SUCCESS) {
    code = api().SetMemObjectDestructorCallback(buffer, free_memory, memory);
    if (code == CL_SUCCESS) return buffer;
    api().ReleaseMemObject(buffer);
  }
  ::operator delete(memory, aligned);
  return nullptr;
}

[[noreturn]] void refuse(const ClDevice& device, size_t bytes, const std::string& why) {
  const uint64_t used = memory_use(device.device()).current, all = device.info().memory_bytes;
  throw Error(
      ErrorCode::out_of_memory,
      fmt::format("cannot allocate {} on {} ({}): {}; this program uses {} of its {}", format_bytes(bytes),
                  to_string(device.device()), device.info().name, why, format_bytes(used), format_bytes(all)),
      {}, "Use a smaller batch or model, or close other programs that use the device.");
}

}  // namespace

Pool::Block Pool::take(ClDevice& device, size_t bytes) {
  if (device.largest_buffer() > 0 && bytes > device.largest_buffer())
    refuse(device, bytes, fmt::format("its largest buffer is {}", format_bytes(device.largest_buffer())));
  const size_t size = device.largest_buffer() > 0
                          ? std::min<size_t>(size_class(bytes), device.largest_buffer())
                          : size_class(bytes);
  const std::scoped_lock lock(mutex_);
  if (auto found = free_.find(size); found != free_.end()) {
    const Block block = found->second;
    free_.erase(found);
    free_bytes_ -= size;
    return block;
  }
  cl_int code = CL_SUCCESS;
  cl_mem buffer = create_buffer(device, size, code);
  if (code != CL_SUCCESS && !free_.empty()) {  // free the blocks in the pool and try again
    trim();
    buffer = create_buffer(device, size, code);
  }
  if (code != CL_SUCCESS) refuse(device, bytes, error_name(code));
  return {buffer, size, nullptr};
}

void Pool::give_back(ClDevice& device, Block block) {
  if (block.released != nullptr) api().ReleaseEvent(block.released);
  block.released = nullptr;
  {
    const std::scoped_lock lock(device.mutex);
    // This fails on a device that was lost; then the block is of no use any more.
    if (api().EnqueueMarkerWithWaitList(device.queue(), 0, nullptr, &block.released) != CL_SUCCESS) {
      api().ReleaseMemObject(block.buffer);
      return;
    }
  }
  const std::scoped_lock lock(mutex_);
  free_.emplace(block.bytes, block);
  free_bytes_ += block.bytes;
  if (free_bytes_ > most_kept) trim();
}

void Pool::trim() {
  for (auto& [size, block] : free_) {
    api().ReleaseEvent(block.released);
    api().ReleaseMemObject(block.buffer);  // enqueued kernels keep it alive until they are done
  }
  free_.clear();
  free_bytes_ = 0;
}

std::shared_ptr<Storage> allocate_memory(ClDevice& device, size_t bytes) {
  return std::make_shared<ClStorage>(device, device.pool.take(device, bytes), bytes);
}

}  // namespace athanor::opencl
