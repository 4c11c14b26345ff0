// Memory of devices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "athanor/device/device.h"
#include "athanor/memory/event.h"

namespace athanor {

/// Memory on a device. Freed with its last owner.
class Storage {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const { return device_; }
  size_t bytes() const { return bytes_; }
  /// On the CPU an ordinary pointer; on other devices the driver's handle of the memory.
  void* address() const { return address_; }
  /// Waits for the content, copies it to host memory, and returns when the copy is done.
  virtual void read(void* destination, size_t offset, size_t count) const = 0;
  /// Copies from host memory, which may change as soon as this returns. The copy itself may still be under
  /// way: ready() says when it is done.
  virtual void write(const void* source, size_t offset, size_t count) = 0;

  /// The content is valid when this event has passed; nullptr: it is valid.
  const std::shared_ptr<Event>& ready() const { return ready_; }
  void set_ready(std::shared_ptr<Event> event) { ready_ = std::move(event); }

 protected:
  Storage(Device device, size_t bytes, void* address) : device_(device), bytes_(bytes), address_(address) {}

 private:
  Device device_;
  size_t bytes_;
  void* address_;
  std::shared_ptr<Event> ready_;
};

/// Allocates memory: the DeviceProvider of each device that tensors may be on.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Throws Error(out_of_memory) with how much was requested and how much is free. The memory is at least
  /// 64-byte aligned and not cleared.
  virtual std::shared_ptr<Storage> allocate(int index, size_t bytes) = 0;
  /// Gives back to the system what was freed and is kept for later.
  virtual void release_kept(int /*index*/) noexcept {}
};

std::shared_ptr<Storage> allocate(Device device, size_t bytes);
void release_kept_memory(Device device);

/// The bytes that Storage objects of a device hold now, and the most that they held at one time (since
/// reset_peak_memory).
struct MemoryUse {
  uint64_t current = 0, peak = 0;
};
MemoryUse memory_use(Device device);
void reset_peak_memory(Device device);
/// For providers: counts an allocation (positive) or a release (negative).
void count_memory(Device device, int64_t bytes);

}  // namespace athanor
