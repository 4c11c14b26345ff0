#include "athanor/doctor/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/chip_order.h"

namespace athanor::doctor {
namespace {

template <class T, class Read>
const T& once(std::optional<T>& kept, const Read& read) {
  if (!kept) kept = read();
  return *kept;
}

}  // namespace

std::string environment_file(const Machine& machine) {
  const auto folder = machine.environment("XDG_CONFIG_HOME");
  return path_in(folder && !folder->empty() ? *folder : path_in(machine.user().home, ".config"),
                 "athanor/env");
}

const System& Facts::system() const {
  return once(system_, [&] { return read_system(machine_); });
}

const std::vector<Gpu>& Facts::gpus() const {
  return once(gpus_, [&] { return gpus_of(detection()); });
}

const Detection& Facts::detection() const {
  return once(detection_, [&] { return detect(machine_); });
}

std::vector<const Gpu*> Facts::gpus(Vendor vendor) const {
  std::vector<const Gpu*> found;
  for (const Gpu& gpu : gpus())
    if (gpu.vendor == vendor) found.push_back(&gpu);
  return found;
}

const NvidiaDriver& Facts::nvidia() const {
  return once(nvidia_, [&] {
    NvidiaDriver driver = read_nvidia(machine_);
    // In WSL the driver is that of Windows, and only its library reports the version.
    for (const FoundDevice& device : detection().devices)
      if (driver.version.empty() && device.from_windows && device.text("vendor") == "NVIDIA")
        driver.version = device.text("driver_version"), driver.source = "NVML";
    return driver;
  });
}

const std::vector<PythonEnvironment>& Facts::pythons() const {
  return once(pythons_, [&] { return read_pythons(machine_); });
}

const std::vector<TorchBuild>& Facts::torches() const {
  return once(torches_, [&] {
    std::vector<TorchBuild> builds;
    std::set<std::string> seen;  // one environment may include another's packages
    for (const PythonEnvironment& environment : pythons())
      if (auto build = read_torch(machine_, environment);
          build && seen.insert(environment.find("torch")->folder).second)
        builds.push_back(std::move(*build));
    return builds;
  });
}

const std::vector<Setting>& Facts::shell() const {
  return once(shell_, [&] { return read_shell(machine_); });
}

const Packages& Facts::packages() const {
  return once(packages_, [&] { return read_packages(machine_); });
}

std::vector<std::string> Facts::log_lines(const std::vector<std::string_view>& parts, size_t most) const {
  const auto& lines = once(log_, [&] { return split(machine_.kernel_log().value_or(""), '\n'); });
  std::vector<std::string> found;
  for (auto line = lines.rbegin(); line != lines.rend() && found.size() < most; ++line)
    if (std::all_of(parts.begin(), parts.end(),
                    [&](std::string_view part) { return line->find(part) != std::string::npos; }))
      found.push_back(trim(*line).substr(0, 200));
  std::reverse(found.begin(), found.end());
  return found;
}

std::optional<std::string> Facts::variable(const std::string& name) const {
  auto value = machine_.environment(name);
  if (!new_shell_) return value;
  const std::string file = environment_file(machine_);
  for (const Setting& setting : parse_shell(machine_.read(file).value_or(""), file))
    if (setting.name == name) value = setting.unset ? std::nullopt : std::optional(setting.value);
  return value;
}

bool Facts::has_module(std::string_view name) const {
  if (std::any_of(gpus().begin(), gpus().end(), [&](const Gpu& gpu) { return gpu.driver == name; }))
    return true;
  const std::string folder = "/sys/module/" + std::string(name);
  if (!machine_.exists(folder)) return false;
  const auto state = machine_.read_line(folder + "/initstate");
  return !state || *state == "live";  // built-in modules have no state
}

std::vector<std::string> Facts::rocm_folders() const {
  std::set<std::string> seen;
  std::vector<std::string> folders;
  for (const char* pattern : {"/opt/rocm-*", "/opt/rocm"})
    for (const std::string& folder : machine_.glob(pattern))
      if (const auto real = machine_.resolve(folder); real && seen.insert(*real).second)
        folders.push_back(*real);
  return folders;
}

std::vector<std::string> Facts::rocblas_folders() const {
  std::vector<std::string> folders;
  for (const std::string& rocm : rocm_folders()) folders.push_back(rocm + "/lib/rocblas/library");
  for (const TorchBuild& torch : torches())
    if (!torch.rocm.empty()) folders.push_back(torch.folder + "/lib/rocblas/library");
  std::erase_if(folders, [&](const std::string& folder) { return !machine_.exists(folder); });
  return folders;
}

std::string Facts::machine_kind() const {
  Chips chips;
  for (const Gpu& gpu : gpus())
    chips.insert(fmt::format("{} {}", to_string(gpu.vendor),
                             gpu.arch.empty() ? fmt::format("{:04x}", gpu.id) : gpu.arch));
  std::string kind = chips.empty() ? "no gpu" : fmt::format("{}", fmt::join(chips, " + "));
  const Os& os = system().os;
  return kind + ", " +
         (os.id.empty() ? "unknown system" : os.id + (os.version.empty() ? "" : " " + os.version));
}

Values Facts::common_values() const {
  const User& user = machine_.user();
  return {{"user", user.name.empty() ? std::to_string(user.uid) : user.name},
          {"home", user.home},
          {"distro", system().os.family},
          {"os", system().os.id},
          {"wsl", system().wsl ? "yes" : "no"},
          {"kernel", system().kernel.empty() ? "?" : system().kernel}};
}

}  // namespace athanor::doctor
