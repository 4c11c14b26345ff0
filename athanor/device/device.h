// Devices and their properties.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
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
  /// The properties that, with the name, determine how fast kernels are. If one of them changes, timings are
  /// obsolete.
  std::vector<std::string> environment = {};
};

/// One kind of device: the CPU, OpenCL, CUDA, HIP. Each backend registers one when the program starts.
class DeviceProvider {
 public:
  virtual ~DeviceProvider() = default;
  /// "cpu", "opencl", ...
  virtual std::string name() const = 0;
  /// Whether it is a vendor's own interface. These are preferred to one that several vendors share.
  virtual bool is_native() const { return true; }
  /// Every device that the runtime lists. Returns {} if the runtime is missing, and does not throw.
  virtual std::vector<DeviceInfo> devices() = 0;
  /// A device that is not listed but can be selected by name.
  virtual std::optional<DeviceInfo> hidden() { return std::nullopt; }
};

/// The most kinds of devices, and the most devices of a kind.
constexpr size_t max_providers = 8, max_devices = 64;
/// The id of the provider of the host's processor, which Device{} means.
constexpr uint8_t host_provider = 0;
/// Adds a provider for the life of the program. Returns its id for Device::provider: `id`, or the next free
/// one if that is -1. (Providers register themselves when the program starts, in no particular order.)
uint8_t register_provider(std::unique_ptr<DeviceProvider> provider, int id = -1);
DeviceProvider& provider_of(Device device);
std::vector<DeviceInfo> list_devices();
DeviceInfo info_of(Device device);

/// "cpu", "opencl:0".
std::string to_string(Device device);

/// The device of a name: "cpu", "opencl:1", "opencl" (its first), "opencl:Radeon" (the first with that in its
/// name) or "gpu" (the first GPU). Throws Error(device) with the known names for an unknown one.
/// ("auto", and "gpu" for the best one, are for choose_device of kernels/choose_device.h, which measures.)
Device parse_device(const std::string& name);

}  // namespace athanor
