// What NVIDIA's management library says: the driver's version, clocks, and links between GPUs. Names and
// numbers are those of NVIDIA's nvml.h. See device/runtimes.h.
#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/os/library.h"
#include "athanor/device/runtimes.h"

namespace athanor::cuda {
namespace {

#ifdef _WIN32
constexpr const char* nvml_library = "nvml.dll";
#else
constexpr const char* nvml_library = "libnvidia-ml.so.1";
#endif

using nlohmann::json;
using Handle = void*;

struct PciInfo {
  std::array<char, 16> old_address;
  unsigned domain, bus, device, id, subsystem;
  std::array<char, 32> address;
};

struct Memory {
  unsigned long long total, free, used;
};

std::string address_of(const PciInfo& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

json describe(const os::Library& nvml, Handle device) {
  const auto find = [&]<class F>(F*, const char* name) { return reinterpret_cast<F*>(nvml.find(name)); };
  json table{{"kind", "gpu"}, {"vendor", "NVIDIA"}};
  const auto text = [&](const char* property, const char* function) {
    const auto get = find(static_cast<int (*)(Handle, char*, unsigned)>(nullptr), function);
    std::array<char, 256> buffer{};
    if (get != nullptr && get(device, buffer.data(), buffer.size() - 1) == 0) table[property] = buffer.data();
  };
  text("name", "nvmlDeviceGetName");
  text("uuid", "nvmlDeviceGetUUID");
  const auto get_pci = find(static_cast<int (*)(Handle, PciInfo*)>(nullptr), "nvmlDeviceGetPciInfo_v3");
  PciInfo pci{};
  if (get_pci != nullptr && get_pci(device, &pci) == 0) table["pci"] = address_of(pci);
  const auto get_memory = find(static_cast<int (*)(Handle, Memory*)>(nullptr), "nvmlDeviceGetMemoryInfo");
  Memory memory{};
  if (get_memory != nullptr && get_memory(device, &memory) == 0) table["memory_bytes"] = memory.total;
  const auto get_clock =
      find(static_cast<int (*)(Handle, int, unsigned*)>(nullptr), "nvmlDeviceGetMaxClockInfo");
  unsigned clock = 0;
  constexpr int sm_clock = 1, memory_clock = 2;
  if (get_clock != nullptr && get_clock(device, sm_clock, &clock) == 0) table["clock_mhz"] = clock;
  if (get_clock != nullptr && get_clock(device, memory_clock, &clock) == 0) table["memory_clock_mhz"] = clock;
  // Counts links to other GPUs or switches by the address at their other end.
  const auto link_state =
      find(static_cast<int (*)(Handle, unsigned, unsigned*)>(nullptr), "nvmlDeviceGetNvLinkState");
  const auto link_end =
      find(static_cast<int (*)(Handle, unsigned, PciInfo*)>(nullptr), "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  constexpr unsigned most_links = 18;  // NVML_NVLINK_MAX_LINKS
  std::map<std::string, int> links;
  for (unsigned link = 0; link_state != nullptr && link_end != nullptr && link < most_links; ++link) {
    unsigned active = 0;
    if (link_state(device, link, &active) == 0 && active != 0 && link_end(device, link, &pci) == 0)
      ++links[address_of(pci)];
  }
  for (const auto& [to, count] : links) table["nvlinks"].push_back({{"to", to}, {"count", count}});
  return table;
}

json ask_nvml() {
  const os::Library nvml({nvml_library});
  if (!nvml) return {{"error", "no NVML library: " + nvml.error()}};
  const auto init = reinterpret_cast<int (*)()>(nvml.find("nvmlInit_v2"));
  const auto get_count = reinterpret_cast<int (*)(unsigned*)>(nvml.find("nvmlDeviceGetCount_v2"));
  const auto get_device =
      reinterpret_cast<int (*)(unsigned, Handle*)>(nvml.find("nvmlDeviceGetHandleByIndex_v2"));
  const auto get_driver = reinterpret_cast<int (*)(char*, unsigned)>(nvml.find("nvmlSystemGetDriverVersion"));
  const auto error_text = reinterpret_cast<const char* (*)(int)>(nvml.find("nvmlErrorString"));
  if (init == nullptr || get_count == nullptr || get_device == nullptr)
    return {{"error", nvml.name() + " lacks functions of NVML"}};
  if (const int code = init(); code != 0)
    return {{"error", fmt::format("NVML does not start: {} ({})",
                                  error_text != nullptr ? error_text(code) : "error", code)}};
  std::array<char, 96> version{};
  if (get_driver != nullptr) get_driver(version.data(), version.size() - 1);
  unsigned count = 0;
  get_count(&count);
  json devices = json::array();
  for (unsigned i = 0; i < count; ++i) {
    Handle device = nullptr;
    if (get_device(i, &device) != 0) continue;
    json table = describe(nvml, device);
    if (version[0] != '\0') table["driver_version"] = version.data();
    devices.push_back(std::move(table));
  }
  return {{"version", std::string("driver ") + version.data()}, {"devices", devices}};
}

[[maybe_unused]] const bool nvml_registered = register_runtime({"nvml", "", ask_nvml});

}  // namespace
}  // namespace athanor::cuda
