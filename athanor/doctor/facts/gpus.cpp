#include "athanor/doctor/facts/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

uint64_t hexadecimal(std::string_view text) {
  uint64_t value = 0;
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

Vendor vendor_of(const std::string& name) {
  if (name == "AMD") return Vendor::amd;
  if (name == "NVIDIA") return Vendor::nvidia;
  return name == "Intel" ? Vendor::intel : Vendor::other;
}

// The source of the architecture, for people to look it up.
std::string source_of_arch(const FoundDevice& device, int kfd_node) {
  const auto fact = device.properties.find("architecture");
  if (fact == device.properties.end()) return {};
  const std::string& source = fact->second.in_use.source;
  if (source == "kfd") return fmt::format("/sys/class/kfd/kfd/topology/nodes/{}/properties", kfd_node);
  if (source == "PCI id") return "PCI id " + device.text("pci_id");
  return source;
}

Gpu gpu_of(const FoundDevice& device, size_t index) {
  Gpu gpu;
  gpu.index = index;
  gpu.address = device.text("pci_address");
  gpu.part = device.number("partition");
  gpu.vendor = vendor_of(device.text("vendor"));
  const std::string id = device.text("pci_id");
  if (const size_t colon = id.find(':'); colon != std::string::npos)
    gpu.id = static_cast<uint16_t>(hexadecimal(std::string_view(id).substr(colon + 1)));
  gpu.driver = device.text("kernel_driver");
  // The GPU is on no bus that is visible here, but a driver or runtime lists it.
  if (gpu.driver.empty() && id.empty())
    gpu.driver = device.from_windows ? "dxg" : device.find("kfd_node") != nullptr ? "amdgpu" : "?";
  gpu.name = device.name;
  gpu.arch = device.text("architecture");
  const Value* integrated = device.find("integrated");
  const bool* flag = integrated == nullptr ? nullptr : std::get_if<bool>(integrated);
  gpu.integrated = flag != nullptr && *flag;
  gpu.memory_bytes = static_cast<uint64_t>(std::max<int64_t>(0, device.number("memory_bytes")));
  gpu.kfd_node = static_cast<int>(device.number("kfd_node", -1));
  gpu.arch_source = source_of_arch(device, gpu.kfd_node);
  gpu.hive = hexadecimal(device.text("xgmi_hive"));
  gpu.render_node = device.text("render_node");
  for (const BackendUse& use : device.backends) {
    if (use.usable && gpu.device.empty()) gpu.device = use.device;
    if (use.usable && use.backend == "opencl" && gpu.opencl.empty()) gpu.opencl = use.device;
    if (use.backend == "opencl") gpu.opencl_hidden_by = use.hidden_by;
    if (use.no_compiler) gpu.without_compiler = use.backend, gpu.compiler_missing = use.reason;
  }
  return gpu;
}

}  // namespace

const char* to_string(Vendor vendor) {
  return vendor == Vendor::amd      ? "amd"
         : vendor == Vendor::nvidia ? "nvidia"
         : vendor == Vendor::intel  ? "intel"
                                    : "other";
}

bool Gpu::is_driven() const { return !driver.empty() && driver != "vfio-pci" && driver != "nouveau"; }

std::string Gpu::title() const {
  return arch.empty() || name.find(arch) != std::string::npos ? name : fmt::format("{} ({})", name, arch);
}

std::string Gpu::place() const {
  if (driver == "dxg") return "Windows' GPU, through /dev/dxg";
  if (address.empty()) return "seen by a runtime";
  return part > 0 ? fmt::format("PCI {}, part {}", address, part) : "PCI " + address;
}

int sm_number(std::string_view arch) {
  int number = 0;
  if (!arch.starts_with("sm_")) return 0;
  std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}

std::vector<Gpu> gpus_of(const Detection& detection) {
  std::vector<Gpu> gpus;
  for (const FoundDevice& device : detection.devices)
    if (device.kind != "cpu") gpus.push_back(gpu_of(device, gpus.size()));
  return gpus;
}

std::string counted_titles(const std::vector<Gpu>& gpus) {
  std::vector<std::pair<std::string, int>> counts;
  for (const Gpu& gpu : gpus) {
    const auto known =
        std::find_if(counts.begin(), counts.end(), [&](const auto& one) { return one.first == gpu.title(); });
    if (known == counts.end())
      counts.emplace_back(gpu.title(), 1);
    else
      ++known->second;
  }
  std::vector<std::string> all;
  for (const auto& [title, count] : counts)
    all.push_back(count > 1 ? fmt::format("{} x {}", count, title) : title);
  return join(all);
}

}  // namespace athanor::doctor
