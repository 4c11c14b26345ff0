#include "athanor/doctor/facts/gpus.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/base/toml.h"
#include "athanor/device/data_sheet.h"
#include "athanor/doctor/data.h"

namespace athanor::doctor {
namespace {

struct Model {
  int64_t vendor, from, to;
  std::string arch, name;
  bool integrated;
};

const std::vector<Model>& models() {
  static const std::vector<Model> all = [] {
    std::vector<Model> list;
    const auto document = parse_toml(data_file("gpu_ids.toml"), "gpu_ids.toml");
    for (const auto& one : document.at("range"))
      list.push_back({one.at("vendor"), one.at("from"), one.value("to", one.at("from").get<int64_t>()),
                      one.at("arch"), one.at("name"), one.value("integrated", false)});
    return list;
  }();
  return all;
}

// The last part of what a link points to: the name of the driver that a device is bound to.
std::string driver_of(const Machine& machine, const std::string& folder) {
  const std::string target = machine.link(folder + "/driver").value_or("");
  return target.substr(target.rfind('/') + 1);
}

struct KfdNode {
  int index = 0;
  std::string gfx;
};

// By PCI address. Nodes without SIMDs are CPUs.
std::map<std::string, KfdNode> kfd_nodes(const Machine& machine) {
  std::map<std::string, KfdNode> nodes;
  for (const std::string& folder : machine.glob("/sys/class/kfd/kfd/topology/nodes/*")) {
    std::map<std::string, int64_t> numbers;
    for (const std::string& line : split(machine.read(folder + "/properties").value_or(""), '\n')) {
      const size_t space = line.find(' ');
      int64_t value = 0;
      if (space != std::string::npos &&
          std::from_chars(line.data() + space + 1, line.data() + line.size(), value).ec == std::errc())
        numbers[line.substr(0, space)] = value;
    }
    if (numbers["simd_count"] <= 0) continue;
    const int64_t at = numbers["location_id"];  // bus, device and function, as in a PCI address
    const std::string address = fmt::format("{:04x}:{:02x}:{:02x}.{}", numbers["domain"] & 0xFFFF,
                                            (at >> 8) & 0xFF, (at >> 3) & 0x1F, at & 7);
    KfdNode& node = nodes[address];
    std::from_chars(folder.data() + folder.rfind('/') + 1, folder.data() + folder.size(), node.index);
    node.gfx = gfx_name(numbers["gfx_target_version"]);
  }
  return nodes;
}

std::string nvidia_model(const Machine& machine, const std::string& address) {
  const std::string file = "/proc/driver/nvidia/gpus/" + address + "/information";
  for (const std::string& line : split(machine.read(file).value_or(""), '\n'))
    if (line.starts_with("Model:")) return trim(std::string_view(line).substr(6));
  return {};
}

}  // namespace

std::string Gpu::title() const {
  const std::string vendor_name = vendor == Vendor::amd      ? "AMD GPU"
                                  : vendor == Vendor::nvidia ? "NVIDIA GPU"
                                                             : "Intel GPU";
  const std::string called = name.empty() ? fmt::format("{} {:04x}", vendor_name, id) : name;
  return arch.empty() ? called : fmt::format("{} ({})", called, arch);
}

std::string gfx_name(int64_t version) {
  if (version < 10000 || version > 999999) return {};
  return fmt::format("gfx{}{:x}{:x}", version / 10000, version / 100 % 100, version % 100);
}

int sm_number(std::string_view arch) {
  int number = 0;
  if (!arch.starts_with("sm_")) return 0;
  std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}

std::vector<Gpu> read_gpus(const Machine& machine) {
  std::vector<Gpu> gpus;
  const auto nodes = kfd_nodes(machine);
  for (const std::string& folder : machine.glob("/sys/bus/pci/devices/*")) {
    const int64_t kind = machine.read_number(folder + "/class").value_or(0) >> 16;
    const int64_t vendor = machine.read_number(folder + "/vendor").value_or(0);
    if (kind != 0x03 && kind != 0x12) continue;  // display controllers, processing accelerators
    if (vendor != 0x1002 && vendor != 0x10de && vendor != 0x8086) continue;
    Gpu gpu;
    gpu.address = folder.substr(folder.rfind('/') + 1);
    gpu.vendor = vendor == 0x1002 ? Vendor::amd : vendor == 0x10de ? Vendor::nvidia : Vendor::intel;
    gpu.id = static_cast<uint16_t>(machine.read_number(folder + "/device").value_or(0));
    gpu.driver = driver_of(machine, folder);
    for (const Model& model : models())
      if (model.vendor == vendor && gpu.id >= model.from && gpu.id <= model.to) {
        gpu.arch = model.arch;
        gpu.name = model.name;
        gpu.integrated = model.integrated;
        gpu.arch_source = fmt::format("PCI id {:04x}:{:04x}", vendor, gpu.id);
        break;
      }
    DeviceTraits traits;
    traits.pci_vendor = static_cast<uint32_t>(vendor);
    traits.pci_device = gpu.id;
    if (const auto revision = machine.read_number(folder + "/revision"))
      traits.pci_revision = static_cast<uint32_t>(*revision);
    // The very model, where its data sheet is known.
    if (const DataSheet* sheet = find_data_sheet(traits)) gpu.name = sheet->name;
    if (const auto node = nodes.find(gpu.address); node != nodes.end() && vendor == 0x1002) {
      gpu.kfd_node = node->second.index;
      if (!node->second.gfx.empty()) {
        gpu.arch = node->second.gfx;
        gpu.arch_source = fmt::format("/sys/class/kfd/kfd/topology/nodes/{}/properties", gpu.kfd_node);
      }
    }
    if (const std::string model = nvidia_model(machine, gpu.address); vendor == 0x10de && !model.empty())
      gpu.name = model;
    for (const std::string& name : machine.list(folder + "/drm"))
      if (name.starts_with("renderD")) gpu.render_node = "/dev/dri/" + name;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace athanor::doctor
