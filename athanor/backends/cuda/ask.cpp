// What NVIDIA's driver says about each device, through the CUDA driver API. It only queries and makes no
// context. Names and numbers are those of NVIDIA's cuda.h, which need not be installed. See
// device/runtimes.h.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "athanor/backends/cuda/compiler.h"
#include "athanor/backends/gpu/stream_api.h"
#include "athanor/backends/gpu/uuid.h"
#include "athanor/base/os/library.h"
#include "athanor/device/runtimes.h"
#include "athanor/device/vendor_libraries.h"

namespace athanor::cuda {
namespace {

using nlohmann::json;

struct DriverLibrary {
  os::Library library{cuda_names()};
  template <class F>
  F* find(const char* name) const {
    return reinterpret_cast<F*>(library.find(name));
  }
};

json ask_driver() {
  const DriverLibrary driver;
  if (!driver.library) return {{"error", "no CUDA driver library: " + driver.library.error()}};
  const auto init = driver.find<int(unsigned)>("cuInit");
  const auto get_version = driver.find<int(int*)>("cuDriverGetVersion");
  const auto get_count = driver.find<int(int*)>("cuDeviceGetCount");
  const auto get_device = driver.find<int(int*, int)>("cuDeviceGet");
  const auto get_name = driver.find<int(char*, int, int)>("cuDeviceGetName");
  const auto get_attribute = driver.find<int(int*, int, int)>("cuDeviceGetAttribute");
  const auto get_memory = driver.find<int(size_t*, int)>("cuDeviceTotalMem_v2");
  const auto get_pci = driver.find<int(char*, int, int)>("cuDeviceGetPCIBusId");
  const auto get_uuid = driver.find<int(unsigned char*, int)>("cuDeviceGetUuid");
  const auto get_error = driver.find<int(int, const char**)>("cuGetErrorName");
  if (init == nullptr || get_count == nullptr || get_device == nullptr || get_name == nullptr ||
      get_attribute == nullptr)
    return {{"error", driver.library.name() + " lacks functions of the CUDA driver"}};
  if (const int code = init(0); code != 0) {
    const char* name = nullptr;
    if (get_error == nullptr || get_error(code, &name) != 0 || name == nullptr) name = "an error";
    return {{"error", fmt::format("the CUDA driver does not start: {} ({})", name, code)}};
  }
  int version = 0, count = 0;
  if (get_version != nullptr) get_version(&version);
  if (get_count(&count) != 0) return {{"error", "the CUDA driver does not say how many devices there are"}};
  json devices = json::array();
  for (int index = 0; index < count; ++index) {
    int device = 0;
    if (get_device(&device, index) != 0) continue;
    json table{{"kind", "gpu"}, {"vendor", "NVIDIA"}};
    std::array<char, 256> text{};
    if (get_name(text.data(), text.size() - 1, device) == 0) table["name"] = text.data();
    text = {};
    if (get_pci != nullptr && get_pci(text.data(), text.size() - 1, device) == 0) {
      std::string address = text.data();
      for (char& c : address)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      table["pci"] = address;
    }
    std::array<unsigned char, 16> uuid{};
    if (get_uuid != nullptr && get_uuid(uuid.data(), device) == 0) table["uuid"] = gpu::nvidia_uuid(uuid);
    size_t bytes = 0;
    if (get_memory != nullptr && get_memory(&bytes, device) == 0) table["memory_bytes"] = bytes;
    const auto attribute = [&](const char* name, int number, int divide = 1) {
      int value = 0;
      if (get_attribute(&value, number, device) == 0 && value > 0) table[name] = value / divide;
    };
    // CU_DEVICE_ATTRIBUTE_...
    attribute("wave_width", 10);       // WARP_SIZE
    attribute("clock_mhz", 13, 1000);  // CLOCK_RATE
    attribute("compute_units", 16);    // MULTIPROCESSOR_COUNT
    attribute("memory_clock_mhz", 36, 1000);
    attribute("memory_bus_bits", 37);
    attribute("l2_bytes", 38);
    attribute("local_memory_bytes", 81);  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    int major = 0, minor = 0;
    if (get_attribute(&major, 75, device) == 0 && get_attribute(&minor, 76, device) == 0)
      table["arch"] = fmt::format("sm_{}{}", major, minor);
    const gpu::CompilerApi& compiler = compiler_for(version, table.value("arch", ""));
    if (compiler.missing.empty())
      table["compiler"] = compiler.version;
    else
      table["unusable"] = fmt::format("{}. {}", compiler.missing, compiler.fix);
    devices.push_back(std::move(table));
  }
  return {{"version", "CUDA " + gpu::release_text(GpuTarget::cuda, version)}, {"devices", devices}};
}

[[maybe_unused]] const bool driver_registered = register_runtime({"cuda", "cuda", ask_driver});

}  // namespace
}  // namespace athanor::cuda
