#include "athanor/backends/gpu/storage.h"

#include <exception>

namespace athanor::gpu {

GpuStorage::GpuStorage(GpuDevice& device, Pool::Block block, size_t bytes)
    : Storage(device.id(), bytes, block.memory), gpu_(device), block_(std::move(block)) {
  set_ready(std::move(block_.released));
  count_memory(device.id(), static_cast<int64_t>(block_.bytes));
}

GpuStorage::~GpuStorage() {
  count_memory(device(), -static_cast<int64_t>(block_.bytes));
  try {
    for (const auto& event : others_) gpu_.kernels().wait(event);
    const bool behind_kernels = used_ || !others_.empty();
    if (behind_kernels && !seen_) gpu_.kernels().wait(ready());  // an upload may be under way
    block_.released = behind_kernels ? gpu_.kernels().record() : ready();
  } catch (const std::exception&) {
    // The device was lost: the block cannot be used any more.
    gpu_.driver().free(block_.memory);
    return;
  }
  gpu_.pool.give_back(std::move(block_));
}

void GpuStorage::used_by(std::shared_ptr<Event> other) {
  std::erase_if(others_, [](const auto& event) { return event->passed(); });
  others_.push_back(std::move(other));
}

void GpuStorage::read(void* destination, size_t offset, size_t count) const {
  if (ready() != nullptr) ready()->wait();
  if (count == 0) return;
  GpuQueue& queue = gpu_.downloads();
  queue.download(destination, {block_.memory, offset}, count);
  queue.finish();
}

void GpuStorage::write(const void* source, size_t offset, size_t count) {
  if (count == 0) return;
  GpuQueue& queue = gpu_.uploads();
  for (const auto& event : others_) queue.wait(event);
  queue.wait(used_ ? gpu_.kernels().record() : ready());
  if (gpu_.facts().shares_host_memory) {
    queue.upload({block_.memory, offset}, source, count);
    queue.finish();
    set_ready(nullptr);
  } else {
    gpu_.staging.upload(queue, {block_.memory, offset}, source, count);
    set_ready(queue.record());
  }
  seen_ = false;
}

}  // namespace athanor::gpu
