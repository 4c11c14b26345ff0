// Memory of devices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "athanor/device/device.h"
#include "athanor/memory/event.h"

namespace athanor {

/// Memory on a device. It is freed with its last owner.
class Storage : public std::enable_shared_from_this<Storage> {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const { return device_; }
  size_t bytes() const { return bytes_; }
  /// An ordinary pointer on the CPU; the driver's handle of the memory on other devices.
  void* address() const { return address_; }
  /// Tells the memory from all other memory of its device, before and later. Drivers use the addresses and
  /// handles of freed memory again.
  virtual const void* identity() const { return address_; }
  /// Waits for the content, copies it to host memory, and returns when the copy is done.
  virtual void read(void* destination, size_t offset, size_t count) const = 0;
  /// Copies from host memory, which may change as soon as this returns. The copy itself may still be under
  /// way: ready() says when it is done.
  virtual void write(const void* source, size_t offset, size_t count) = 0;

  /// The content is valid when this event has passed; nullptr: it is valid now.
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

/// Allocates memory. The DeviceProvider of every device that tensors may be on is also an Allocator.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Throws Error(out_of_memory) with how much was requested and how much is free. The memory is at least
  /// 64-byte aligned and not cleared.
  virtual std::shared_ptr<Storage> allocate(int index, size_t bytes) = 0;
  /// Returns freed memory that is kept for later use to the system.
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
