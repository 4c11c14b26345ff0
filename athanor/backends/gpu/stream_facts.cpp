// What CUDA and HIP say of a device.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/backends/gpu/stream_driver.h"
#include "athanor/backends/gpu/uuid.h"
#include "athanor/base/ceil_div.h"
#include "athanor/base/text.h"
#include "athanor/device/overrides.h"

namespace athanor::gpu {

namespace {

int version_of(const StreamApi& api) {
  int version = 0;
  if (api.driver_version != nullptr) api.driver_version(&version);
  return version;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

StreamDriver::StreamDriver(const StreamApi& api, FindCompiler compiler, int number, Device device)
    : api_(api),
      number_(number),
      version_(version_of(api)),
      architecture_(api.architecture(api, number)),
      compiler_(compiler(version_, architecture_)) {
  DeviceInfo& info = facts_.info;
  GpuTraits& traits = facts_.traits;
  info.device = device;
  info.kind = "gpu";
  std::array<char, 256> text{};
  if (api.device_name(text.data(), text.size() - 1, number) == 0) info.name = text.data();
  size_t bytes = 0;
  if (api.device_memory(&bytes, number) == 0) info.memory_bytes = bytes;
  const auto attribute = [&](int which, int otherwise) {
    int value = 0;
    return api.device_attribute(&value, which, number) == 0 && value > 0 ? value : otherwise;
  };
  facts_.unified_memory = attribute(api.attributes.integrated, 0) == 1;
  facts_.target = api.target;
  facts_.waves = true;
  facts_.tells_resources = api.function_attribute != nullptr;
  facts_.release = version_ / (api.target == GpuTarget::cuda ? 1000 : 10000000);  // 12040, 60443483
  facts_.largest_buffer = info.memory_bytes;
  traits.max_group_size = std::min(attribute(api.attributes.max_threads_per_block, 256),
                                   attribute(api.attributes.max_block_x, 256));
  traits.local_bytes = attribute(api.attributes.shared_memory_per_block, 32 * 1024);
  const int units = attribute(api.attributes.multiprocessors, 1);
  traits.compute_units = std::min(units, 4096);
  if (const auto said = Overrides(Machine()).find("compute_units", {info.name, to_string(device)}))
    traits.compute_units = static_cast<int>(std::clamp<int64_t>(*said, 1, 4096));
  traits.max_buffers = 256;  // 4 KiB of parameters hold twice as many
  traits.f64 = traits.f16 = traits.atomics_64 = true;
  add_architecture(traits, api.target, architecture_);
  const std::string source = api.target == GpuTarget::cuda ? "CUDA" : "HIP";
  const auto property = [&](const char* name, std::string value) {
    if (!value.empty()) info.properties[name] = {std::move(value), source};
  };
  property("driver", fmt::format("{} {}", source, version_));
  property("vendor", api.target == GpuTarget::cuda ? "NVIDIA" : "AMD");
  property("architecture", architecture_);
  property("compiler", compiler_.missing.empty() ? compiler_.version : compiler_.missing);
  property("compute units", std::to_string(units));
  property("memory", format_bytes(info.memory_bytes));
  property("local memory", format_bytes(static_cast<uint64_t>(traits.local_bytes)));
  property("work-items in a group", std::to_string(traits.max_group_size));
  property("wave width", std::to_string(attribute(api.attributes.warp_size, 0)));
  info.environment = {"driver", "architecture", "compiler"};
  text = {};
  if (api.device_pci_address != nullptr && api.device_pci_address(text.data(), text.size() - 1, number) == 0)
    property("PCI address", lower(text.data()));
  std::array<unsigned char, 16> uuid{};
  if (api.device_uuid != nullptr && api.device_uuid(uuid.data(), number) == 0)
    property("UUID", nvidia_uuid(uuid));
  facts_.fingerprint =
      fmt::format("{}|{}|{}|{}|{}", source, version_, info.name, architecture_, compiler_.version);
  for (const std::string& option :
       compiler_.missing.empty() ? compiler_.options(architecture_) : std::vector<std::string>())
    facts_.fingerprint += "|" + option;
}

KernelResources StreamDriver::resources(Function function, int64_t items) {
  enter();
  enum : int { shared_size = 1, local_size = 3, register_count = 4 };  // the same in both
  const auto attribute = [&](int which) {
    int value = 0;
    return api_.function_attribute(&value, which, function) == 0 ? value : 0;
  };
  const auto of_device = [&](int which) {
    int value = 0;
    return api_.device_attribute(&value, which, number_) == 0 ? value : 0;
  };
  KernelResources found{.registers = attribute(register_count),
                        .private_bytes = attribute(local_size),
                        .local_bytes = attribute(shared_size)};
  const int wave = of_device(api_.attributes.warp_size);
  int groups = 0;
  if (wave > 0 && api_.groups_at_once(&groups, function, static_cast<int>(items), 0) == 0) {
    found.waves = groups * static_cast<int>(ceil_div(items, wave));
    found.most_waves = of_device(api_.attributes.max_threads_per_multiprocessor) / wave;
  }
  return found;
}

std::vector<std::unique_ptr<Driver>> list_devices(const StreamApi& api, FindCompiler compiler,
                                                  uint8_t provider) {
  std::vector<std::unique_ptr<Driver>> list;
  int count = 0;
  if (!api.missing.empty() || api.init(0) != 0 || api.device_count(&count) != 0) return list;
  for (int number = 0; number < count; ++number)
    list.push_back(std::make_unique<StreamDriver>(api, compiler, number,
                                                  Device{provider, static_cast<uint8_t>(number)}));
  return list;
}

}  // namespace athanor::gpu
