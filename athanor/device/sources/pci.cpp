// Devices on the PCI bus that could compute, and what their kernel drivers report about them.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "athanor/base/text.h"
#include "athanor/device/data_sheet.h"
#include "athanor/device/explain.h"
#include "athanor/device/pci.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

using pci_vendor::amd, pci_vendor::intel, pci_vendor::nvidia;

// "16.0 GT/s PCIe" and "16" as "16.0 GT/s x16".
std::optional<std::string> link_of(const Machine& machine, const std::string& folder,
                                   const std::string& which) {
  const auto speed = machine.read_line(folder + "/" + which + "_link_speed");
  const auto width = machine.read_number(folder + "/" + which + "_link_width");
  if (!speed || !width || *width <= 0 || *width > 32 || speed->find("GT/s") == std::string::npos)
    return std::nullopt;
  return fmt::format("{} GT/s x{}", trim(speed->substr(0, speed->find("GT/s"))), *width);
}

// The folder with the slot's link. Many cards contain a bridge, and the link behind it says nothing about the
// slot (AMD: always the best; Intel Arc: always 2.5 GT/s x1).
std::string slot_side(const Machine& machine, const PciDevice& device) {
  std::string best = device.folder;
  auto place = machine.resolve(device.folder);
  if (!place || (device.vendor != amd && device.vendor != intel)) return best;
  for (int depth = 0; depth < 3; ++depth) {
    place = place->substr(0, place->rfind('/'));
    const int64_t vendor = machine.read_number(*place + "/vendor").value_or(0);
    const int64_t id = machine.read_number(*place + "/device").value_or(0);
    // AMD's root ports have another vendor id (1022). Intel's have the same, so the bridges of its cards are
    // listed.
    const bool of_card = device.vendor == amd
                             ? vendor == amd
                             : vendor == intel && (id == 0x4fa0 || id == 0x4fa1 || id == 0x4fa4 ||
                                                   id == 0xe2ff || id == 0xe2f0 || id == 0xe2f1);
    if (!of_card) break;
    best = *place;
  }
  return best;
}

// The largest clock in lines such as "1: 2219Mhz *".
std::optional<int64_t> largest_clock(const Machine& machine, const std::string& file) {
  std::optional<int64_t> best;
  for (const std::string& line : split(machine.read(file).value_or(""), '\n')) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    int64_t value = 0;
    const auto end = std::from_chars(line.data() + colon + 2, line.data() + line.size(), value);
    if (end.ec == std::errc() && value > 0 && value < 100'000) best = std::max(best.value_or(0), value);
  }
  return best;
}

// The slot's link by amdgpu: lines "1: 8.0GT/s, x8 619Mhz *", where * marks the one in use. If different
// lines are marked, the link in use is not known.
struct DriverLinks {
  std::optional<std::string> now, best;
};

DriverLinks driver_links(const Machine& machine, const std::string& file) {
  DriverLinks links;
  bool ambiguous = false;
  double best = 0;
  for (const std::string& line : split(machine.read(file).value_or(""), '\n')) {
    const size_t colon = line.find(": "), unit = line.find("GT/s, x");
    if (colon == std::string::npos || unit == std::string::npos || unit < colon + 3) continue;
    const std::string speed = line.substr(colon + 2, unit - colon - 2);
    double gigatransfers = 0;
    int width = 0;
    std::from_chars(speed.data(), speed.data() + speed.size(), gigatransfers);
    std::from_chars(line.data() + unit + 7, line.data() + line.size(), width);
    if (gigatransfers <= 0 || gigatransfers > 1000 || width <= 0 || width > 32) continue;
    const std::string link = fmt::format("{} GT/s x{}", speed, width);
    if (line.find('*') != std::string::npos) {
      ambiguous = ambiguous || (links.now && *links.now != link);
      links.now = link;
    }
    if (gigatransfers * width > best) best = gigatransfers * width, links.best = link;
  }
  if (ambiguous) links.now.reset();
  return links;
}

// The largest clock in a part of pp_od_clk_voltage: lines "1: 2735Mhz" below "OD_SCLK:".
std::optional<int64_t> largest_allowed(const Machine& machine, const std::string& file,
                                       std::string_view part) {
  std::optional<int64_t> best;
  bool inside = false;
  for (const std::string& line : split(machine.read(file).value_or(""), '\n')) {
    const size_t colon = line.find(": ");
    if (line.ends_with(":") || colon == std::string::npos) inside = trim(line) == part;
    if (!inside || colon == std::string::npos) continue;
    const std::string number = trim(line.substr(colon + 2));
    int64_t value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    if (value > 0 && value < 100'000) best = std::max(best.value_or(0), value);
  }
  return best;
}

// Adds the largest clock. Two files of the driver report it; if they differ, adds both.
void add_clock(Sighting& seen, const Machine& machine, const PciDevice& device, const char* property,
               const char* levels, const char* part) {
  const auto by_levels = largest_clock(machine, device.folder + "/" + levels);
  const auto allowed = largest_allowed(machine, device.folder + "/pp_od_clk_voltage", part);
  const bool differ = by_levels && allowed && std::abs(*by_levels - *allowed) * 50 > *by_levels;
  seen.add(property, by_levels, differ ? fmt::format("by {}", levels) : "");
  if (differ || !by_levels) seen.add(property, allowed, differ ? "by pp_od_clk_voltage" : "");
}

// The version of the graphics core (hw_id 11) in the list of parts that the chip reports.
std::string graphics_core(const Machine& machine, const std::string& folder) {
  const std::string place = folder + "/ip_discovery/die/0/11/0";
  const auto major = machine.read_number(place + "/major"), minor = machine.read_number(place + "/minor"),
             revision = machine.read_number(place + "/revision");
  return major && minor && revision ? fmt::format("{}.{}.{}", *major, *minor, *revision) : std::string();
}

Sighting of_amdgpu(const Machine& machine, const PciDevice& device) {
  Sighting seen;
  seen.source = "amdgpu";
  const std::string& folder = device.folder;
  seen.name = machine.read_line(folder + "/product_name").value_or("");
  if (const std::string core = graphics_core(machine, folder); !core.empty()) {
    if (const std::string gfx = gfx_of_graphics_core(core); !gfx.empty())
      seen.add("architecture", Value(gfx));
    seen.add("graphics_core", Value(core));
  }
  seen.add("memory_bytes", machine.read_number(folder + "/mem_info_vram_total"));
  seen.add("shared_memory_bytes", machine.read_number(folder + "/mem_info_gtt_total"));
  seen.add("memory_used_bytes", machine.read_number(folder + "/mem_info_vram_used"));
  add_clock(seen, machine, device, "clock_mhz", "pp_dpm_sclk", "OD_SCLK:");
  add_clock(seen, machine, device, "memory_clock_mhz", "pp_dpm_mclk", "OD_MCLK:");
  const DriverLinks links = driver_links(machine, folder + "/pp_dpm_pcie");
  seen.add("pcie_link", links.now);
  seen.add("pcie_link_best", links.best);
  seen.add("vbios", machine.read_line(folder + "/vbios_version"));
  seen.add("partition_mode", machine.read_line(folder + "/current_compute_partition"));
  seen.add("memory_vendor", machine.read_line(folder + "/mem_info_vram_vendor"));
  return seen;
}

Sighting of_intel(const Machine& machine, const PciDevice& device) {
  Sighting seen;
  seen.source = device.driver;
  seen.add("clock_mhz", machine.read_number(device.folder + "/tile0/gt0/freq0/rp0_freq"));
  for (const std::string& card : machine.glob(device.folder + "/drm/card*"))
    seen.add("clock_mhz", machine.read_number(card + "/gt_RP0_freq_mhz"));
  return seen;
}

}  // namespace

std::vector<Sighting> sightings_of_pci(const Machine& machine) {
  std::vector<Sighting> all;
  for (const PciDevice& device : find_pci_devices(machine)) {
    Sighting seen;
    seen.source = "pci";
    seen.kind = "gpu";
    seen.pci = device.address;
    seen.add("pci_id", Value(fmt::format("{:04x}:{:04x}", device.vendor, device.device)));
    if (device.revision >= 0) seen.add("pci_revision", Value(device.revision));
    seen.add("vendor", Value(device.vendor == amd ? "AMD" : device.vendor == nvidia ? "NVIDIA" : "Intel"));
    if (!device.driver.empty()) seen.add("kernel_driver", Value(device.driver));
    const std::string slot = slot_side(machine, device);
    const auto link = link_of(machine, slot, "current"), best = link_of(machine, slot, "max");
    // Every Arc has this link behind its own bridge. If the bridge cannot be seen, it is not the slot's link.
    const bool inside = device.vendor == intel && slot == device.folder && best == "2.5 GT/s x1";
    seen.add(inside ? "pcie_link_inside" : "pcie_link", link);
    if (!inside) {
      seen.add("pcie_link_best", best);
      // The port that the card is plugged into.
      if (const auto place = machine.resolve(slot); best && place)
        if (const auto of_slot = link_of(machine, place->substr(0, place->rfind('/')), "max"))
          seen.add("pcie_link_best", Value(*of_slot), slot_link);
    }
    if (const auto node = machine.read_number(device.folder + "/numa_node"); node && *node >= 0)
      seen.add("numa_node", node);
    seen.render_minor = render_minor_of(machine, device);
    if (seen.render_minor >= 0)
      seen.add("render_node", Value(fmt::format("/dev/dri/renderD{}", seen.render_minor)));
    std::optional<Sighting> more;
    if (device.driver == "amdgpu") more = of_amdgpu(machine, device);
    if (device.driver == "xe" || device.driver == "i915") more = of_intel(machine, device);
    if (more) more->pci = seen.pci, more->kind = seen.kind;
    all.push_back(std::move(seen));
    if (more) all.push_back(std::move(*more));
  }
  return all;
}

}  // namespace athanor
