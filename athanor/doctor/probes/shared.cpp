#include "athanor/doctor/probes/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "athanor/base/text.h"
#include "athanor/device/pci.h"
#include "athanor/doctor/last_driver.h"
#include "athanor/doctor/plan.h"

namespace athanor::doctor {

std::vector<const Gpu*> computing_gpus(const Facts& facts, Vendor vendor) {
  std::vector<const Gpu*> all = facts.gpus(vendor);
  std::erase_if(all, [](const Gpu* gpu) { return gpu->driver == "vfio-pci" || gpu->driver == "radeon"; });
  // A GPU that NVIDIA's driver ignores, while it runs or would run others.
  const auto left_behind = [&](const Gpu* gpu) { return is_left_behind(facts, *gpu); };
  if (!std::all_of(all.begin(), all.end(), left_behind)) std::erase_if(all, left_behind);
  const auto runs = [](const Gpu* gpu) { return gpu->driver == "nvidia"; };
  if (std::any_of(all.begin(), all.end(), runs))
    std::erase_if(all, [](const Gpu* gpu) { return gpu->vendor == Vendor::nvidia && gpu->driver.empty(); });
  const bool discrete = std::any_of(all.begin(), all.end(), [](const Gpu* gpu) { return !gpu->integrated; });
  if (discrete) std::erase_if(all, [](const Gpu* gpu) { return gpu->integrated; });
  return all;
}

std::vector<const Gpu*> computing_gpus(const Facts& facts) {
  std::vector<const Gpu*> all;
  for (const Vendor vendor : {Vendor::nvidia, Vendor::amd, Vendor::intel, Vendor::other})
    for (const Gpu* gpu : computing_gpus(facts, vendor)) all.push_back(gpu);
  std::stable_partition(all.begin(), all.end(), [](const Gpu* gpu) { return !gpu->integrated; });
  return all;
}

Vendor vendor_of(const TorchBuild& torch) {
  return !torch.cuda.empty()      ? Vendor::nvidia
         : !torch.rocm.empty()    ? Vendor::amd
         : torch.flavour == "xpu" ? Vendor::intel
                                  : Vendor::other;
}

std::string nvswitch_folder(const Facts& facts) {
  const Machine& machine = facts.machine();
  std::string found;
  for (const std::string& folder : machine.glob("/sys/bus/pci/devices/*"))
    if (machine.read_number(folder + "/vendor") == pci_vendor::nvidia &&
        machine.read_number(folder + "/class").value_or(0) >> 8 == 0x0680)
      found = folder;
  return found;
}

Finding not_permitted(const Facts& facts, const std::string& path) {
  const Machine& machine = facts.machine();
  const FileStatus status = machine.status(path);
  const std::string group = machine.group_name(status.gid);
  std::vector<std::string> groups;
  for (const uint32_t id : machine.user().groups) {
    const std::string name = machine.group_name(id);
    groups.push_back(name.empty() ? std::to_string(id) : name);
  }
  Finding finding = fail();
  finding.seen(path, fmt::format("uid {}, gid {}{}, mode {:04o}", status.uid, status.gid,
                                 group.empty() ? "" : " (" + group + ")", status.mode));
  finding.seen("/proc/self/status", "groups " + join(groups));
  finding.with("path", path).with("gid", std::to_string(status.gid));
  finding.with("group", group.empty() ? std::to_string(status.gid) : group);
  std::string kind = "group";
  if (status.gid == 0 || (status.mode & 0060) != 0060)
    kind = "udev";
  else if (group.empty())
    kind = facts.system().container.empty() ? "udev" : "container";
  else
    for (const std::string& line : split(machine.read("/etc/group").value_or(""), '\n')) {
      const auto parts = split(line, ':');
      if (parts.size() < 4 || parts[0] != group) continue;
      const auto members = split(parts[3], ',');
      if (std::find(members.begin(), members.end(), machine.user().name) != members.end()) {
        finding.seen("/etc/group", line);
        kind = "relogin";
      }
    }
  return finding.with("kind", kind);
}

std::optional<InstalledRocm> newest_rocm(const Facts& facts) {
  std::optional<InstalledRocm> newest;
  for (const std::string& folder : facts.rocm_folders()) {
    const std::string file = folder + "/.info/version";
    const auto version = Version::parse(facts.machine().read_line(file).value_or(""));
    if (version && (!newest || *version > newest->version)) newest = {*version, file};
  }
  return newest;
}

const Compatibility::JaxCuda* jax_cuda_for(const Facts& facts, const std::vector<const Gpu*>& gpus) {
  const auto driver = usable_driver(facts, gpus);
  const Compatibility::JaxCuda* found = nullptr;
  for (const Compatibility::JaxCuda& row : Compatibility::known().jax_cuda) {
    const bool chips = std::all_of(gpus.begin(), gpus.end(),
                                   [&](const Gpu* gpu) { return may_run(facts, *gpu, row.oldest_sm); });
    if (chips && (!driver || *driver >= row.driver)) found = &row;
  }
  return found;
}

std::optional<Finding> failed_dkms(const Facts& facts, std::string_view package) {
  const Machine& machine = facts.machine();
  const std::string folder = "/var/lib/dkms/" + std::string(package);
  const std::string kernel = facts.system().kernel;
  const std::string module = package.starts_with("nvidia") ? "nvidia" : std::string(package);
  for (const char* place : {"/updates/dkms/", "/extra/", "/updates/"})
    if (!machine.glob(fmt::format("/lib/modules/{}{}{}.ko*", kernel, place, module)).empty())
      return std::nullopt;
  for (const std::string& version : machine.glob(folder + "/*")) {
    const std::string log = version + "/build/make.log";
    const std::string text = machine.read(log, size_t{4} << 20).value_or("");
    // The head of the log names the kernel for which the module was built.
    if (text.empty() || (!kernel.empty() && text.find(kernel) == std::string::npos)) continue;
    for (const std::string& line : split(text, '\n'))
      if (line.find(" error: ") != std::string::npos || line.find("*** ") != std::string::npos)
        return fail().seen(log, shortened(line)).with("version", version.substr(version.rfind('/') + 1));
  }
  return std::nullopt;
}

void add_torch_wheel(const Facts& facts, const PythonEnvironment& environment, Finding& finding) {
  const TorchWheel wheel = torch_wheel(facts, Version::parse(environment.version));
  finding.with("wheel", wheel.index.empty() ? "no" : "yes").with("index", wheel.index);
  finding.with("torch", wheel.package);
  finding.with("python", environment.python()).with("environment", environment.prefix);
}

Finding not_recorded(const std::string& folder) { return skip().seen(folder, "nothing of it was recorded"); }

Finding runtime_not_recorded(const Gpu& gpu) {
  return skip().seen(gpu.vendor == Vendor::amd ? "HIP" : "CUDA", "its answers were not recorded");
}

std::string shortened(std::string_view text, size_t most) {
  std::string line = trim(text.substr(0, text.find('\n')));
  if (line.size() > most) line = line.substr(0, most) + "...";
  // Text that is shown on a terminal must not control it.
  std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  return line;
}

std::string date_text(int64_t seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time - day).count();
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), minutes / 60,
                     minutes % 60);
}

}  // namespace athanor::doctor
