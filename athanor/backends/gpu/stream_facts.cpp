// What CUDA and HIP report about a device.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/backends/gpu/stream_driver.h"
#include "athanor/backends/gpu/uuid.h"
#include "athanor/base/ceil_div.h"

namespace athanor::gpu {
namespace {

int version_of(const StreamApi& api) {
  int version = 0;
  if (api.driver_version != nullptr) api.driver_version(&version);
  return version;
}

}  // namespace

std::string release_text(GpuTarget target, int version) {
  if (target == GpuTarget::cuda) return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  return fmt::format("{}.{}.{}", version / 10'000'000, version / 100'000 % 100, version % 100'000);
}

StreamDriver::StreamDriver(const StreamApi& api, FindCompiler compiler, int handle, Device device)
    : api_(api),
      handle_(handle),
      version_(version_of(api)),
      architecture_(api.architecture(api, handle)),
      compiler_(compiler(version_, architecture_)),
      compiled_for_(compiler_.own_name != nullptr ? compiler_.own_name(compiler_, architecture_)
                                                  : architecture_) {
  DeviceInfo& info = facts_.info;
  GpuTraits& traits = facts_.traits;
  info.device = device;
  info.kind = "gpu";
  std::array<char, 256> text{}, pci{};
  if (api.device_name(text.data(), text.size() - 1, handle) == 0) info.name = text.data();
  size_t bytes = 0;
  if (api.device_memory(&bytes, handle) == 0) info.memory_bytes = bytes;
  facts_.unified_memory = attribute(api.attributes.integrated, 0) == 1;
  facts_.target = api.target;
  facts_.waves = true;
  facts_.tells_resources = api.function_attribute != nullptr;
  facts_.release = version_ / (api.target == GpuTarget::cuda ? 1000 : 10000000);  // 12040, 60443483
  facts_.largest_buffer = info.memory_bytes;
  traits.max_group_size = std::min(attribute(api.attributes.max_threads_per_block, 256),
                                   attribute(api.attributes.max_block_x, 256));
  traits.local_bytes = attribute(api.attributes.shared_memory_per_block, 32 * 1024);
  // The limit for launches, if they can ask for more.
  if (api.function_allow != nullptr)
    traits.local_bytes_at_launch = attribute(api.attributes.shared_memory_at_launch, 0);
  traits.f64 = traits.f16 = traits.atomics_64 = true;
  add_architecture(traits, api.target, compiled_for_);
  if (compiler_.known_units != nullptr)
    traits.matrix_units = compiler_.known_units(compiler_, traits.matrix_units);
  traits.box_copies = traits.box_copies && api.encode_tensor != nullptr;
  const std::string source = api.target == GpuTarget::cuda ? "CUDA" : "HIP";
  const bool has_pci =
      api.device_pci_address != nullptr && api.device_pci_address(pci.data(), pci.size() - 1, handle) == 0;
  std::array<unsigned char, 16> uuid{};
  const bool has_uuid = api.device_uuid != nullptr && api.device_uuid(uuid.data(), handle) == 0;
  describe(source, attribute(api.attributes.multiprocessors, 1),
           {{"driver", fmt::format("{} {}", source, release_text(api.target, version_))},
            {"vendor", api.target == GpuTarget::cuda ? "NVIDIA" : "AMD"},
            {"architecture", architecture_},
            {"compiler", compiler_.missing.empty() ? compiler_.version : compiler_.missing},
            {"wave width", std::to_string(attribute(api.attributes.warp_size, 0))},
            {"PCI address", has_pci ? pci.data() : ""},
            {"UUID", has_uuid ? nvidia_uuid(uuid) : ""}});
  info.environment = {"driver", "architecture", "compiler"};
  facts_.unusable = compiler_.missing;
  facts_.fix = compiler_.fix;
  if (facts_.unusable.empty() && architecture_.empty()) {
    facts_.unusable = "the driver does not say which architecture it has";
    facts_.fix = "Kernels are compiled for an architecture. A newer driver may know the device.";
  }
  facts_.fingerprint =
      fmt::format("{}|{}|{}|{}|{}", source, version_, info.name, architecture_, compiler_.version);
  if (compiler_.missing.empty())
    for (const std::string& option : compiler_.options(compiled_for_)) facts_.fingerprint += "|" + option;
}

int StreamDriver::attribute(int which, int otherwise) const {
  int value = 0;
  return api_.device_attribute(&value, which, handle_) == 0 && value > 0 ? value : otherwise;
}

KernelResources StreamDriver::resources(Function function, const GpuLaunch& launch) {
  enter();
  const int64_t items = launch.group_size[0] * launch.group_size[1] * launch.group_size[2];
  const size_t asked = launch.local_at_launch ? local_at_launch(static_cast<size_t>(launch.local_bytes)) : 0;
  enum : int { shared_size = 1, local_size = 3, register_count = 4 };  // the same in both
  const auto tell = [&](int which) {
    int value = 0;
    return api_.function_attribute(&value, which, function) == 0 ? value : 0;
  };
  KernelResources found{.registers = tell(register_count),
                        .private_bytes = tell(local_size),
                        .local_bytes = tell(shared_size) + static_cast<int>(asked)};
  const int wave = attribute(api_.attributes.warp_size, 0);
  int groups = 0;
  if (wave > 0 && api_.groups_at_once(&groups, function, static_cast<int>(items), asked) == 0) {
    found.waves = groups * static_cast<int>(ceil_div(items, wave));
    found.most_waves = attribute(api_.attributes.max_threads_per_multiprocessor, 0) / wave;
  }
  return found;
}

std::vector<std::unique_ptr<Driver>> list_devices(const StreamApi& api, FindCompiler compiler,
                                                  uint8_t provider) {
  std::vector<std::unique_ptr<Driver>> list;
  int count = 0;
  if (!api.missing.empty() || api.init(0) != 0 || api.device_count(&count) != 0) return list;
  for (int number = 0; number < count; ++number) {
    int handle = number;
    // Without this one, the others would have wrong numbers.
    if (api.device_get != nullptr && api.device_get(&handle, number) != 0) return {};
    list.push_back(std::make_unique<StreamDriver>(api, compiler, handle,
                                                  Device{provider, static_cast<uint8_t>(number)}));
  }
  return list;
}

}  // namespace athanor::gpu
