// What AMD's HIP runtime says about each device; it only queries. Numbers and offsets in structures are those
// of ROCm's hip_runtime_api.h, which need not be installed. See device/runtimes.h.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "athanor/backends/gpu/stream_api.h"
#include "athanor/backends/hip/compiler.h"
#include "athanor/backends/hip/library.h"
#include "athanor/device/runtimes.h"

namespace athanor::hip {
namespace {

using nlohmann::json;

json ask() {
  const os::Library& hip = hip_library();
  if (!hip) return {{"error", "no HIP runtime library (libamdhip64.so)"}};
  const auto get_count = reinterpret_cast<int (*)(int*)>(hip.find("hipGetDeviceCount"));
  const auto get_version = reinterpret_cast<int (*)(int*)>(hip.find("hipRuntimeGetVersion"));
  const auto get_name = reinterpret_cast<int (*)(char*, int, int)>(hip.find("hipDeviceGetName"));
  const auto get_memory = reinterpret_cast<int (*)(size_t*, int)>(hip.find("hipDeviceTotalMem"));
  const auto get_attribute = reinterpret_cast<int (*)(int*, int, int)>(hip.find("hipDeviceGetAttribute"));
  const auto get_pci = reinterpret_cast<int (*)(char*, int, int)>(hip.find("hipDeviceGetPCIBusId"));
  const auto get_error = reinterpret_cast<const char* (*)(int)>(hip.find("hipGetErrorName"));
  if (get_count == nullptr || get_attribute == nullptr)
    return {{"error", hip.name() + " lacks functions of HIP"}};
  int count = 0, version = 0;
  if (const int code = get_count(&count); code != 0)
    return {{"error", fmt::format("the HIP runtime finds no device: {} ({})",
                                  get_error != nullptr ? get_error(code) : "error", code)}};
  if (get_version != nullptr) get_version(&version);
  json devices = json::array();
  for (int device = 0; device < count; ++device) {
    json table{{"kind", "gpu"}, {"vendor", "AMD"}};
    std::array<char, 256> text{};
    if (get_name != nullptr && get_name(text.data(), text.size() - 1, device) == 0)
      table["name"] = text.data();
    text = {};
    if (get_pci != nullptr && get_pci(text.data(), text.size() - 1, device) == 0) table["pci"] = text.data();
    const std::string target = target_of(hip, device);
    if (!target.empty()) table["arch"] = target;
    size_t bytes = 0;
    if (get_memory != nullptr && get_memory(&bytes, device) == 0) table["memory_bytes"] = bytes;
    const auto attribute = [&](const char* name, int number, int divide = 1) {
      int value = 0;
      if (get_attribute(&value, number, device) == 0 && value > 0) table[name] = value / divide;
    };
    // hipDeviceAttribute_t of HIP 5 and later.
    attribute("clock_mhz", 5, 1000);
    attribute("l2_bytes", 19);
    attribute("memory_bus_bits", 59);
    attribute("memory_clock_mhz", 60, 1000);
    attribute("compute_units", 63);  // "multiprocessors"; on RDNA they are work-group processors
    attribute("local_memory_bytes", 74);
    attribute("wave_width", 87);
    const gpu::CompilerApi& compiler = hip_compiler();
    if (compiler.missing.empty())
      table["compiler"] = compiler.version;
    else
      table["unusable"] = fmt::format("{}. {}", compiler.missing, compiler.fix);
    if (compiler.missing.empty() && target.empty())
      table["unusable"] =
          "the driver does not say which architecture it has. A newer driver may know the device";
    devices.push_back(std::move(table));
  }
  return {{"version", "HIP " + gpu::release_text(GpuTarget::hip, version)}, {"devices", devices}};
}

[[maybe_unused]] const bool registered = register_runtime({"hip", "hip", ask});

}  // namespace
}  // namespace athanor::hip
