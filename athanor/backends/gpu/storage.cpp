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
  GpuQueue& kernels = gpu_.kernels();
  const auto behind = [&](const std::shared_ptr<Event>& event) {
    try {
      kernels.wait(event);
    } catch (const std::exception&) {
      event->settle();
    }
  };
  for (const auto& event : others_) behind(event);
  const bool behind_kernels = used_ || !others_.empty();
  if (behind_kernels && !seen_) behind(ready());  // an upload may be under way
  block_.released = behind_kernels ? kernels.record_or_settle() : ready();
  gpu_.pool.give_back(std::move(block_));
}

void GpuStorage::used_by(std::shared_ptr<Event> other) {
  std::erase_if(others_, [](const auto& event) { return event->passed(); });
  others_.push_back(std::move(other));
}

void GpuStorage::read(void* destination, size_t offset, size_t count) const {
  if (ready() != nullptr) ready()->wait();
  if (count == 0) return;
  GpuQueue& queue = gpu_.reads();
  queue.download(destination, {block_.memory, offset}, count);
  queue.finish();
}

void GpuStorage::write(const void* source, size_t offset, size_t count) {
  if (count == 0) return;
  GpuQueue& queue = gpu_.copies_in();
  const SettlesOnError settled(queue);
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
