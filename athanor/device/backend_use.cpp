// Which backends can use a device, and why the others cannot.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "athanor/base/text.h"
#include "athanor/device/provider_names.h"
#include "athanor/device/sighting.h"
#include "athanor/device/spoken.h"
#include "athanor/device/vendor_libraries.h"
#include "athanor/device/visibility.h"

namespace athanor {
namespace {

const RuntimeState* state_of(const std::vector<RuntimeState>& runtimes, const std::string& name) {
  const auto found =
      std::find_if(runtimes.begin(), runtimes.end(), [&](const auto& one) { return one.name == name; });
  return found == runtimes.end() ? nullptr : &*found;
}

// Why a backend cannot use a device; `text` is empty if nothing is in the way.
struct Why {
  std::string text;
  bool not_known = false;  // what it depends on was not recorded
};

// "you may not open /dev/kfd: it is for the group render, and you are not in it"; "" if the user may open the
// file.
Why closed(const Machine& machine, const std::string& path) {
  const Access access = machine.access(path);
  if (access == Access::read_write) return {};
  if (access == Access::missing)
    return machine.covers(path)
               ? Why{fmt::format("there is no {}", path)}
               : Why{fmt::format("nothing of /dev was recorded, so not whether there is {}", path), true};
  const FileStatus status = machine.status(path);
  const std::string group = machine.group_name(status.gid);
  return {fmt::format("you may not open {}: it is for the group {}{}", path,
                      group.empty() ? std::to_string(status.gid) : group,
                      machine.user().groups.contains(status.gid) ? "" : ", and you are not in it")};
}

Why why_no_amd(const FoundDevice& device, const Machine& machine) {
  const std::string driver = device.text("kernel_driver");
  if (driver.empty() && device.properties.contains("pci_id"))
    return {"no kernel driver is bound to it (amdgpu is needed)"};
  if (!driver.empty() && driver != "amdgpu")
    return {fmt::format("it is bound to the kernel driver {}, not to amdgpu", driver)};
  if (Why why = closed(machine, "/dev/kfd"); !why.text.empty()) return why;
  const std::string node = device.text("render_node");
  return node.empty() ? Why() : closed(machine, node);
}

Why why_no_nvidia(const FoundDevice& device, const Machine& machine) {
  const std::string driver = device.text("kernel_driver");
  if (driver.empty() && device.properties.contains("pci_id"))
    return {"no kernel driver is bound to it (NVIDIA's is needed)"};
  if (!driver.empty() && driver != "nvidia")
    return {fmt::format("it is bound to the kernel driver {}, not to nvidia", driver)};
  return machine.exists("/dev/nvidiactl") ? closed(machine, "/dev/nvidiactl") : Why();
}

// The reason for a runtime that does not list the device: `answered` if the runtime answered, else why not.
Why answer_of(const RuntimeState& state, const std::string& answered) {
  return state.answered ? Why{answered} : Why{state.problem, !state.asked};
}

Why why_not_opencl(const FoundDevice& device, const RuntimeState* state, const std::string& hidden,
                   const Machine& machine) {
  if (state == nullptr) return {"this build of Athanor has no OpenCL"};
  Why why;
  const std::string vendor = device.text("vendor");
  if (vendor == "AMD" && device.kind != "cpu" && machine.exists("/sys/class/kfd"))
    why = why_no_amd(device, machine);
  if (vendor == "NVIDIA" && device.kind != "cpu") why = why_no_nvidia(device, machine);
  if (vendor == "Intel" && !device.text("render_node").empty())
    why = closed(machine, device.text("render_node"));
  if (!why.text.empty()) return why;
  std::vector<std::string> drivers;
  bool vendors_own = false;  // only vendors' own drivers read the variables; Mesa's do not
  for (const std::string& name : machine.list("/etc/OpenCL/vendors"))
    if (name.ends_with(".icd")) {
      drivers.push_back(name);
      vendors_own = vendors_own || name.starts_with(vendor == "AMD" ? "amdocl" : "nvidia");
    }
  if (!hidden.empty() && vendors_own) return {"hidden by " + hidden};
  if (!state->asked && !drivers.empty())
    return {fmt::format("installed are {}; what they list was not recorded", join(drivers)), true};
  if (state->answered && drivers.empty() && !machine.covers("/etc"))
    return {"its drivers (/etc/OpenCL/vendors) were not recorded", true};
  return answer_of(*state, drivers.empty()
                               ? "no OpenCL driver is installed (none in /etc/OpenCL/vendors)"
                               : fmt::format("no OpenCL driver lists it; installed are {}", join(drivers)));
}

Why why_not(const std::string& backend, const FoundDevice& device, const RuntimeState* state,
            const std::string& hidden, const Machine& machine) {
  const std::string name = spoken(backend);
  Why why = backend == "hip" ? why_no_amd(device, machine) : why_no_nvidia(device, machine);
  if (!why.text.empty()) return why;
  if (state == nullptr) return {fmt::format("this build of Athanor does not know {}", name)};
  // A runtime that finds only hidden devices says that there is no device.
  if (!hidden.empty()) return {"hidden by " + hidden};
  return answer_of(*state, fmt::format("the {} runtime does not list it", name));
}

// 12080 for "CUDA 12.8".
int cuda_version(const RuntimeState* state) {
  int major = 0, minor = 0;
  if (state == nullptr || std::sscanf(state->version.c_str(), "CUDA %d.%d", &major, &minor) != 2) return 0;
  return major * 1000 + minor * 10;
}

// The use of a device that the backend's runtime lists.
BackendUse listed(BackendUse use, bool built, const FoundDevice& device, const RuntimeState* state,
                  const Machine& machine) {
  if (!built) {
    use.usable = use.no_compiler = false;
    use.reason = fmt::format("its runtime has it ({}), but this build of Athanor has no {} backend",
                             use.device, spoken(use.backend));
  } else if (use.usable && !machine.live()) {
    const Missing missing =
        missing_compiler(machine, use.backend, cuda_version(state), device.text("architecture"));
    use.usable = missing.what.empty();
    use.no_compiler = !use.usable;
    if (!use.usable) use.reason = fmt::format("{}. {}", missing.what, missing.fix);
  }
  if (!use.usable) use.device.clear();
  return use;
}

// The use of a device that the backend's runtime does not list.
BackendUse unlisted(const std::string& backend, const FoundDevice& device, const RuntimeState* state,
                    const std::vector<Visibility>& hiding, const Machine& machine) {
  BackendUse use{.backend = backend};
  if (device.kind != "cpu") use.hidden_by = hidden_by(hiding, device, backend);
  Why why = backend == "opencl" ? why_not_opencl(device, state, use.hidden_by, machine)
                                : why_not(backend, device, state, use.hidden_by, machine);
  use.reason = std::move(why.text);
  use.not_known = why.not_known;
  if (!use.reason.starts_with("hidden by ")) use.hidden_by.clear();
  return use;
}

}  // namespace

void add_backends(std::vector<FoundDevice>& devices, const std::vector<RuntimeState>& runtimes,
                  const Machine& machine) {
  const std::vector<std::string> built = provider_names();
  const std::vector<Visibility> hiding = visibilities(devices, machine);
  for (FoundDevice& device : devices) {
    std::vector<BackendUse> seen = std::move(device.backends);
    device.backends.clear();
    if (device.kind == "cpu") device.backends.push_back({.backend = "cpu", .usable = true, .device = "cpu"});
    std::vector<std::string> wanted;
    const std::string vendor = device.text("vendor");
    if (device.kind != "cpu" && vendor == "NVIDIA") wanted.emplace_back("cuda");
    if (device.kind != "cpu" && vendor == "AMD") wanted.emplace_back("hip");
    wanted.emplace_back("opencl");
    for (const BackendUse& use : seen)
      if (std::find(wanted.begin(), wanted.end(), use.backend) == wanted.end()) wanted.push_back(use.backend);
    for (const std::string& backend : wanted) {
      const RuntimeState* state = state_of(runtimes, backend);
      const bool is_built = std::find(built.begin(), built.end(), backend) != built.end();
      const size_t before = device.backends.size();
      for (const BackendUse& use : seen)
        if (use.backend == backend) device.backends.push_back(listed(use, is_built, device, state, machine));
      if (device.backends.size() == before)
        device.backends.push_back(unlisted(backend, device, state, hiding, machine));
    }
  }
}

}  // namespace athanor
