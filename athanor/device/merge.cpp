// Combines sightings of the same device into one device.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/data_sheet.h"
#include "athanor/device/explain.h"
#include "athanor/device/gpu_models.h"
#include "athanor/device/groups.h"
#include "athanor/device/pci_names.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

// If several sources have a property, the one nearest to the hardware is used: the first in this list.
int rank_of(const std::string& source) {
  // AMD's runtimes repeat HSA_OVERRIDE_GFX_VERSION; the PCI id does not depend on it.
  static const std::vector<std::string> order = {
      "kfd", "drm",  "amdgpu", "xe",  "i915", "nvidia", "nvml",       "cuda",        "PCI id",
      "hip", "proc", "sysfs",  "pci", "wsl",  "opencl", "data sheet", "architecture"};
  return static_cast<int>(std::find(order.begin(), order.end(), source) - order.begin());
}

std::string name_by(const Group& group, const std::string& source) {
  for (const Sighting* one : group.seen)
    if (one->source == source && !one->name.empty()) return one->name;
  return {};
}

uint32_t pci_part(const std::string& id, bool device) {
  uint32_t value = 0;
  const size_t start = device ? std::min(id.find(':') + 1, id.size()) : 0;
  std::from_chars(id.data() + start, id.data() + id.size(), value, 16);
  return value;
}

DeviceTraits traits_of(const FoundDevice& device, const Group& group) {
  DeviceTraits traits;
  traits.pci_vendor = pci_part(device.text("pci_id"), false);
  traits.pci_device = pci_part(device.text("pci_id"), true);
  if (const int64_t revision = device.number("pci_revision", -1); revision >= 0)
    traits.pci_revision = static_cast<uint32_t>(revision);
  for (const char* source : {"nvml", "cuda", "nvidia", "hip", "amdgpu", "opencl"})
    if (traits.name.empty()) traits.name = name_by(group, source);
  traits.arch = device.text("architecture");
  traits.compute_units = device.number("compute_units");
  traits.memory_bytes = static_cast<uint64_t>(device.number("memory_bytes"));
  return traits;
}

void add_sheet(FoundDevice& device, const DataSheet& sheet) {
  const auto add = [&](const std::string& property, const std::optional<Value>& value) {
    if (!value) return;
    Fact& fact = device.properties[property];
    Reading reading{*value, "data sheet", {}};
    if (fact.in_use.source.empty())
      fact.in_use = std::move(reading);
    else
      fact.others.push_back(std::move(reading));
  };
  const auto some = [](const std::optional<double>& number) {
    return number && *number > 0 ? std::optional<Value>(*number) : std::nullopt;
  };
  add("data_sheet", sheet.name);
  add("family", sheet.family);
  add("architecture", sheet.vendor == "Intel" ? std::nullopt : std::optional<Value>(sheet.arch));
  add("compute_units", static_cast<int64_t>(sheet.compute_units));
  add("bandwidth_gb_s", some(sheet.bandwidth_gb_s));
  add("f32_tflops", some(sheet.f32_tflops));
  add("f16_tflops", some(sheet.f16_vector_tflops));
  add("f16_matrix_tflops", some(sheet.f16_matrix_tflops));
  add("bf16_matrix_tflops", some(sheet.bf16_matrix_tflops));
  add("power_watts", some(sheet.watts));
  if (sheet.host_link.starts_with("PCIe")) add("pcie_link_best", sheet.host_link);
}

// The device's name, as people know it.
std::string name_of(const Group& group, const FoundDevice& device, const DataSheet* sheet,
                    const Machine& machine) {
  const uint32_t vendor = pci_part(device.text("pci_id"), false), id = pci_part(device.text("pci_id"), true);
  std::vector<std::string> names;
  for (const char* source : {"nvml", "cuda", "nvidia", "proc"}) names.push_back(name_by(group, source));
  if (vendor == 0x1002) names.push_back(amdgpu_name(machine, id, device.number("pci_revision", -1)));
  if (sheet != nullptr) names.push_back(sheet->vendor + " " + sheet->name);
  for (const char* source : {"hip", "amdgpu", "opencl"})
    if (const std::string name = name_by(group, source); name.find("gfx") == std::string::npos)
      names.push_back(name);  // a bare target is no name
  if (vendor != 0) names.push_back(pci_name(machine, vendor, id));
  if (const GpuModel* model = find_gpu_model(vendor, id))
    names.push_back(model->name + (device.find("possible_models") != nullptr ? " series" : ""));
  for (const std::string& name : names)
    if (!name.empty()) return name;
  if (group.kind == "cpu") return "CPU";
  const std::string arch = device.text("architecture");
  return trim(fmt::format("{} GPU {}", group.vendor, arch.empty() ? device.text("pci_id") : arch));
}

// Adds facts by PCI id. The architecture is added only if no source that asked the chip has it.
void add_model(std::vector<std::pair<std::string, Reading>>& readings) {
  std::string id, arch;
  for (const auto& [property, reading] : readings) {
    const auto* text = std::get_if<std::string>(&reading.value);
    if (text != nullptr && property == "pci_id") id = *text;
    if (text != nullptr && property == "architecture" && rank_of(reading.source) < rank_of("PCI id"))
      arch = *text;
  }
  const GpuModel* model = find_gpu_model(pci_part(id, false), pci_part(id, true));
  if (model == nullptr) return;
  if (arch.empty()) readings.push_back({"architecture", {model->arch, "PCI id", {}}});
  if (model->integrated) readings.push_back({"integrated", {true, "PCI id", {}}});
}

// Adds the products that the device may be, if its revision, which would tell them apart, is missing.
void add_possible_models(FoundDevice& device, const DeviceTraits& traits) {
  std::vector<std::string> names;
  for (const DataSheet* sheet : possible_data_sheets(traits)) names.push_back(sheet->name);
  if (names.empty()) return;
  Fact& fact = device.properties["possible_models"];
  fact.in_use = {athanor::join(names), "data sheet", {}};
  fact.note =
      "by PCI id: its revision, which would tell them apart, is not known; other products may have the id "
      "too";
}

FoundDevice device_of(const Group& group, const Machine& machine) {
  FoundDevice device;
  device.kind = group.kind.empty() ? "gpu" : group.kind;
  std::vector<std::pair<std::string, Reading>> readings;
  for (const Sighting* one : group.seen) {
    readings.insert(readings.end(), one->readings.begin(), one->readings.end());
    // Several drivers of one runtime (PoCL and Rusticl for the processor) give one device several names.
    const bool listed = std::any_of(device.backends.begin(), device.backends.end(),
                                    [&](const BackendUse& use) { return use.device == one->device; });
    if (!one->nvlinks.empty()) device.nvlinks = one->nvlinks;
    if (!one->device.empty() && !listed)
      device.backends.push_back({.backend = one->source,
                                 .usable = one->unusable.empty(),
                                 .device = one->device,
                                 .reason = one->unusable,
                                 .no_compiler = !one->unusable.empty()});
  }
  add_model(readings);
  std::stable_sort(readings.begin(), readings.end(), [](const auto& a, const auto& b) {
    return rank_of(a.second.source) < rank_of(b.second.source);
  });
  for (auto& [property, reading] : readings) {
    if (auto* text = std::get_if<std::string>(&reading.value)) *text = printable(std::move(*text));
    Fact& fact = device.properties[property];
    if (fact.in_use.source.empty())
      fact.in_use = reading;
    else
      fact.others.push_back(reading);
  }
  const auto note = [&](const char* property, const std::string& value, const char* source) {
    if (!value.empty()) device.properties[property].in_use = {value, source, {}};
  };
  if (!group.pci.empty()) note("pci_address", group.pci, group.seen[0]->source.c_str());
  note("uuid", group.uuid, "nvidia");
  if (group.partition > 0) device.properties["partition"].in_use = {group.partition, "kfd", {}};
  if (group.render_minor >= 0 && !device.properties.contains("render_node"))
    note("render_node", fmt::format("/dev/dri/renderD{}", group.render_minor), "kfd");
  if (!device.properties.contains("vendor")) note("vendor", group.vendor, "kfd");
  explain_units(device, machine);
  const DataSheet* sheet = group.kind == "cpu" ? nullptr : find_data_sheet(traits_of(device, group));
  if (sheet != nullptr && group.partition == 0) add_sheet(device, *sheet);
  if (sheet == nullptr && group.kind != "cpu") add_possible_models(device, traits_of(device, group));
  device.name = printable(name_of(group, device, sheet, machine));
  add_features(device);
  explain_conflicts(device);
  return device;
}

}  // namespace

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  return text;
}

std::vector<FoundDevice> merge(const std::vector<Sighting>& sightings, const Machine& machine) {
  std::vector<FoundDevice> devices;
  for (const Group& group : groups_of(sightings)) devices.push_back(device_of(group, machine));
  return devices;
}

}  // namespace athanor
