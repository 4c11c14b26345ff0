#include "athanor/doctor/facts/gpus.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/base/toml.h"
#include "athanor/device/data_sheet.h"
#include "athanor/device/kfd.h"
#include "athanor/device/pci.h"
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

int sm_number(std::string_view arch) {
  int number = 0;
  if (!arch.starts_with("sm_")) return 0;
  std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}

std::vector<Gpu> read_gpus(const Machine& machine) {
  std::map<std::string, KfdNode> nodes;  // by PCI address
  for (KfdNode& node : kfd_gpus(machine)) nodes.insert_or_assign(node.pci(), std::move(node));
  std::vector<Gpu> gpus;
  for (const PciDevice& device : find_pci_devices(machine)) {
    Gpu gpu;
    gpu.address = device.address;
    gpu.vendor = device.vendor == pci_vendor::amd      ? Vendor::amd
                 : device.vendor == pci_vendor::nvidia ? Vendor::nvidia
                                                       : Vendor::intel;
    gpu.id = static_cast<uint16_t>(device.device);
    gpu.driver = device.driver;
    for (const Model& model : models())
      if (model.vendor == device.vendor && gpu.id >= model.from && gpu.id <= model.to) {
        gpu.arch = model.arch;
        gpu.name = model.name;
        gpu.integrated = model.integrated;
        gpu.arch_source = fmt::format("PCI id {:04x}:{:04x}", device.vendor, gpu.id);
        break;
      }
    DeviceTraits traits;
    traits.pci_vendor = static_cast<uint32_t>(device.vendor);
    traits.pci_device = gpu.id;
    if (device.revision >= 0) traits.pci_revision = static_cast<uint32_t>(device.revision);
    // The very model, where its data sheet is known.
    if (const DataSheet* sheet = find_data_sheet(traits)) gpu.name = sheet->name;
    if (const auto node = nodes.find(gpu.address); node != nodes.end() && gpu.vendor == Vendor::amd) {
      gpu.kfd_node = node->second.index;
      gpu.hive = node->second.value("hive_id");
      if (const std::string gfx = node->second.gfx(); !gfx.empty()) {
        gpu.arch = gfx;
        gpu.arch_source = node->second.folder + "/properties";
      }
    }
    if (gpu.vendor == Vendor::nvidia)
      if (const std::string model = nvidia_model(machine, gpu.address); !model.empty()) gpu.name = model;
    if (const int64_t minor = render_minor_of(machine, device); minor >= 0)
      gpu.render_node = fmt::format("/dev/dri/renderD{}", minor);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace athanor::doctor
