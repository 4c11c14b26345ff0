// Devices, what is known about them, and their memory.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

/// Identifies a device: its provider (a registered backend) and its number there. A small value.
struct Device {
  uint8_t provider = 0;
  uint8_t index = 0;
  auto operator<=>(const Device&) const = default;
};

/// A value and its source: {"2", "cpuid"}, {"24.0 GiB", "sysconf"}.
struct Property {
  std::string value;
  std::string source;
};

struct DeviceInfo {
  Device device;
  std::string name;  // "AMD EPYC, 2 cores"
  std::string kind;  // "cpu", "gpu", ...
  uint64_t memory_bytes = 0;
  std::map<std::string, Property> properties;
};

/// A point in a device's work: passed when everything before it is done.
class Event {
 public:
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Never waits.
  virtual bool passed() const = 0;
  /// Waits. Throws Error for what went wrong on the device before this point.
  virtual void wait() const = 0;

 protected:
  Event() = default;
};

/// Memory on a device. Freed with its last owner.
class Storage {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const { return device_; }
  size_t bytes() const { return bytes_; }
  /// On the CPU an ordinary pointer; on other devices what their driver calls the memory.
  void* address() const { return address_; }
  /// Copies to host memory, as soon as the content is there; waits until the copy is done.
  virtual void read(void* destination, size_t offset, size_t count) const = 0;
  /// Copies from host memory, which may change as soon as this returns. The copy itself may still be under
  /// way: ready() says when it is done.
  virtual void write(const void* source, size_t offset, size_t count) = 0;

  /// The content is there when this has passed; nullptr: it is there.
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

/// One kind of device: the CPU, OpenCL, CUDA, HIP. Each backend registers one when the program starts.
class DeviceProvider {
 public:
  virtual ~DeviceProvider() = default;
  /// "cpu", "opencl", ...
  virtual std::string name() const = 0;
  /// Every device that the runtime lists. Returns {} if the runtime is missing, and does not throw.
  virtual std::vector<DeviceInfo> devices() = 0;
  /// A device that is not listed, for who names the provider.
  virtual std::optional<DeviceInfo> hidden() { return std::nullopt; }
  /// Throws Error(out_of_memory) with how much was asked for and how much there is. The memory is at least
  /// 64-byte aligned and not cleared.
  virtual std::shared_ptr<Storage> allocate(int index, size_t bytes) = 0;
};

/// The id of the provider of the host's processor, which Device{} means.
constexpr uint8_t host_provider = 0;
/// Adds a provider for the life of the program; gives its id for Device::provider: `id`, or the next that is
/// free when that is -1. (Providers register themselves when the program starts, in no particular order.)
uint8_t register_provider(std::unique_ptr<DeviceProvider> provider, int id = -1);
DeviceProvider& provider_of(Device device);
std::vector<DeviceInfo> list_devices();
DeviceInfo info_of(Device device);

/// "cpu", "opencl:0".
std::string to_string(Device device);

/// The device of a name: "cpu", "opencl:1", "opencl" (its first), "opencl:Radeon" (the first with that in its
/// name) or "gpu" (the first of that kind). Throws Error(device) for an unknown name, with the known ones.
/// ("auto" is for choose_device of kernels/choose_device.h, which measures.)
Device parse_device(const std::string& name);

std::shared_ptr<Storage> allocate(Device device, size_t bytes);

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
