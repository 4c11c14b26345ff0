// Memory of a GPU, from its pool.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "athanor/backends/gpu/device.h"
#include "athanor/memory/storage.h"

namespace athanor::gpu {

class GpuStorage final : public Storage {
 public:
  GpuStorage(GpuDevice& device, Pool::Block block, size_t bytes);
  ~GpuStorage() override;
  void read(void* destination, size_t offset, size_t count) const override;
  void write(const void* source, size_t offset, size_t count) override;

  const void* identity() const override { return reinterpret_cast<const void*>(block_.number); }

  GpuDevice& gpu() const { return gpu_; }
  Memory memory() const { return block_.memory; }
  /// Whether the queue of kernels has used it since it was last written from the host.
  bool seen() const { return seen_; }
  void set_seen() { seen_ = used_ = true; }
  /// For other queues of the device. They wait at each use; the queue of kernels waits for them in the end.
  void set_used() { used_ = true; }
  /// Another device uses the memory until this has passed.
  void used_by(std::shared_ptr<Event> other);

 private:
  GpuDevice& gpu_;
  Pool::Block block_;
  std::atomic<bool> seen_ = false;
  std::atomic<bool> used_ = false;              // by a queue of this device, ever
  std::vector<std::shared_ptr<Event>> others_;  // each passes after another device's use of it
};

}  // namespace athanor::gpu
