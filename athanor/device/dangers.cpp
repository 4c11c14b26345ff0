// Settings that make devices disappear, fail, or look like others.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/text.h"
#include "athanor/device/explain.h"
#include "athanor/device/overrides.h"
#include "athanor/device/sighting.h"
#include "athanor/device/visibility.h"

namespace athanor {
namespace {

// "10.3.0" as "gfx1030".
std::string gfx_of_override(const std::string& text) {
  std::vector<int> parts;
  for (const std::string& part : split(text, '.')) {
    int value = -1;
    const auto end = std::from_chars(part.data(), part.data() + part.size(), value);
    if (part.empty() || end.ptr != part.data() + part.size() || value < 0 || value > 99) return {};
    parts.push_back(value);
  }
  return parts.size() == 3 ? fmt::format("gfx{}{:x}{:x}", parts[0], parts[1], parts[2]) : std::string();
}

// Chips with the same instructions. An override within a family works; one to another family makes kernels
// fail.
std::string_view family_of(const std::string& arch) {
  if (arch.starts_with("gfx103")) return "RDNA2";
  if (arch.starts_with("gfx110")) return "RDNA3";
  if (arch.starts_with("gfx115")) return "RDNA3.5";
  if (arch.starts_with("gfx120")) return "RDNA4";
  if (arch.starts_with("gfx101")) return "RDNA1";
  return arch;
}

void find_gfx_overrides(const std::vector<FoundDevice>& devices, const Machine& machine,
                        std::vector<Danger>& found) {
  for (const std::string& name : machine.environment_names()) {
    // HSA_OVERRIDE_GFX_VERSION_0 is for one GPU. Names with other characters cannot be unset in a shell.
    if (!name.starts_with("HSA_OVERRIDE_GFX_VERSION") ||
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != std::string::npos)
      continue;
    const std::string value = machine.environment(name).value_or("");
    const std::string pretended = gfx_of_override(value);
    const std::string setting = fmt::format("{}={}", name, value);
    if (pretended.empty()) {
      found.push_back({setting, "is not a version like 10.3.0", "unset " + name});
      continue;
    }
    for (const FoundDevice& device : devices) {
      // Runtimes repeat the override, so only the kernel driver's answer counts.
      const auto known = device.properties.find("architecture");
      if (known == device.properties.end()) continue;
      const std::string& source = known->second.in_use.source;
      const std::string arch = device.text("architecture");
      if ((source != "kfd" && source != "amdgpu") || arch == pretended) continue;
      const bool related = family_of(arch) == family_of(pretended);
      found.push_back(
          {setting,
           related ? fmt::format("makes programs take {} ({}) for {}: the same instructions, so most work; "
                                 "its own kernels, where there are some, are not used",
                                 device.name, arch, pretended)
                   : fmt::format("makes programs run kernels for {} on {}, which is {}: they fault or "
                                 "compute nonsense",
                                 pretended, device.name, arch),
           "unset " + name});
    }
  }
}

void find_forced_waves(const std::vector<FoundDevice>& devices, const Machine& machine,
                       std::vector<Danger>& found) {
  const bool rdna = std::any_of(devices.begin(), devices.end(), [](const FoundDevice& device) {
    return gfx_major(device.text("architecture")) >= 10;
  });
  if (!rdna) return;
  if (machine.environment("GPU_ENABLE_WAVE32_MODE") == "0")
    found.push_back({"GPU_ENABLE_WAVE32_MODE=0",
                     "forces waves of 64, where kernels are written for 32: half of an array stays unset",
                     "unset GPU_ENABLE_WAVE32_MODE"});
  for (const char* name :
       {"HIPCC_COMPILE_FLAGS_APPEND", "AMD_OCL_BUILD_OPTIONS_APPEND", "AMD_OCL_BUILD_OPTIONS"})
    if (const auto flags = machine.environment(name); flags &&
                                                      flags->find("wavefrontsize64") != std::string::npos &&
                                                      flags->find("no-wavefrontsize64") == std::string::npos)
      found.push_back({fmt::format("{}={}", name, *flags),
                       "compiles kernels for waves of 64, where the chip's own are of 32",
                       fmt::format("unset {}", name)});
  if (const auto mode = machine.environment("GPU_ENABLE_WGP_MODE"); mode == "0")
    found.push_back({"GPU_ENABLE_WGP_MODE=0",
                     "launches kernels on single compute units: runtimes then count those, and groups have "
                     "half the local memory",
                     "unset GPU_ENABLE_WGP_MODE, unless it was measured to be faster"});
}

std::string backends_text(const std::vector<std::string>& backends) {
  std::vector<std::string> names;
  for (const std::string& name : backends)
    names.push_back(name == "hip" ? "HIP" : name == "cuda" ? "CUDA" : "OpenCL");
  return join(names);
}

std::string place_of(const FoundDevice& device) {
  const std::string address = device.text("pci_address");
  return address.empty() ? device.name : fmt::format("{} at {}", device.name, address);
}

// What a runtime lists is not hidden: then the variable counts a device that was not found here.
bool hides(const Visibility& one, size_t index) {
  bool listed = false;
  for (const BackendUse& use : one.devices[index]->backends) {
    if (use.hidden_by == one.setting) return true;
    listed |= std::find(one.backends.begin(), one.backends.end(), use.backend) != one.backends.end() &&
              (use.usable || use.no_compiler);
  }
  return one.visible[index] == Visible::no && !listed;
}

void find_hidden(const std::vector<FoundDevice>& devices, const Machine& machine,
                 std::vector<Danger>& found) {
  for (const Visibility& one : visibilities(devices, machine)) {
    std::vector<std::string> names;
    for (size_t i = 0; i < one.devices.size(); ++i)
      if (hides(one, i)) names.push_back(place_of(*one.devices[i]));
    if (!names.empty())
      found.push_back({one.setting, fmt::format("hides {} from {}", join(names), backends_text(one.backends)),
                       fmt::format("unset {}, unless that is meant", one.variable)});
  }
  const auto mask = machine.environment("ZE_AFFINITY_MASK");
  std::vector<std::string> names;
  for (const FoundDevice& device : devices)
    if (device.kind != "cpu" && device.text("vendor") == "Intel") names.push_back(place_of(device));
  if (mask && !names.empty() &&
      static_cast<size_t>(std::count(mask->begin(), mask->end(), ',')) + 1 < names.size())
    found.push_back({fmt::format("ZE_AFFINITY_MASK={}", *mask),
                     fmt::format("shows programs some of {} devices of Intel", names.size()),
                     "unset ZE_AFFINITY_MASK, unless that is meant"});
}

}  // namespace

std::vector<Danger> find_dangers(const std::vector<FoundDevice>& devices, const Machine& machine) {
  std::vector<Danger> found;
  find_gfx_overrides(devices, machine, found);
  find_forced_waves(devices, machine, found);
  find_hidden(devices, machine, found);
  const Overrides overrides(machine);
  for (const std::string& problem : overrides.problems())
    found.push_back({"devices.toml, ATHANOR_DEVICE_...", problem, "see docs/detect.md"});
  for (Danger& danger : found) {
    danger.setting = printable(std::move(danger.setting));
    danger.what = printable(std::move(danger.what));
  }
  return found;
}

}  // namespace athanor
