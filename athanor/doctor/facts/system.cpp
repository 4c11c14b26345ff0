#include "athanor/doctor/facts/system.h"

#include <algorithm>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

Os read_os(const Machine& machine) {
  Os os;
  std::string like;
  const auto text = machine.read("/etc/os-release");
  const auto usual = text ? text : machine.read("/usr/lib/os-release");
  for (const auto& [name, value] : parse_assignments(usual.value_or(""))) {
    if (name == "ID") os.id = value;
    if (name == "VERSION_ID") os.version = value;
    if (name == "PRETTY_NAME") os.name = value;
    if (name == "ID_LIKE") like = value;
  }
  const std::string all = " " + os.id + " " + like + " ";
  for (const auto& [family, names] :
       {std::pair{"debian", std::vector{"debian", "ubuntu"}},
        std::pair{"fedora", std::vector{"fedora", "rhel"}}, std::pair{"suse", std::vector{"suse", "sles"}},
        std::pair{"arch", std::vector{"arch"}}})
    for (const char* name : names)
      if (os.family == "other" && all.find(" " + std::string(name) + " ") != std::string::npos)
        os.family = family;
  return os;
}

std::string container_of(const Machine& machine) {
  if (const auto name = machine.environment("container"); name && !name->empty()) return *name;
  if (machine.exists("/run/.containerenv")) return "podman";
  const std::string groups = machine.read("/proc/1/cgroup").value_or("");
  if (machine.environment("KUBERNETES_SERVICE_HOST") || groups.find("kubepods") != std::string::npos)
    return "kubernetes";
  if (machine.exists("/.dockerenv") || groups.find("/docker") != std::string::npos) return "docker";
  return groups.find("/lxc") != std::string::npos ? "lxc" : "";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> parse_assignments(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& raw : split(text, '\n')) {
    const std::string line = trim(raw);
    const size_t equals = line.find('=');
    if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
    std::string value = line.substr(equals + 1);
    if (value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0])
      value = value.substr(1, value.size() - 2);
    all.emplace_back(line.substr(0, equals), value);
  }
  return all;
}

bool System::started_with(std::string_view word) const {
  return std::find(command_line.begin(), command_line.end(), word) != command_line.end();
}

System read_system(const Machine& machine) {
  System system;
  system.os = read_os(machine);
  system.kernel = machine.read_line("/proc/sys/kernel/osrelease").value_or("");
  if (system.kernel.empty()) {
    // "Linux version 6.1.0-18-amd64 (debian-kernel@...) ..."
    const auto words = split(machine.read_line("/proc/version").value_or(""), ' ');
    if (words.size() > 2) system.kernel = words[2];
  }
  system.wsl = contains_ignoring_case(system.kernel, "microsoft");
  system.container = container_of(machine);
  for (const std::string& word : split(machine.read_line("/proc/cmdline").value_or(""), ' '))
    if (!word.empty()) system.command_line.push_back(word);
  // The variable has four bytes of attributes, then the value.
  const auto variable =
      machine.read_bytes("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", 16);
  if (variable && variable->size() >= 5) system.secure_boot = (*variable)[4] == 1;
  return system;
}

}  // namespace athanor::doctor
