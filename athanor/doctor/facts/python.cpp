#include "athanor/doctor/facts/python.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "athanor/base/text.h"
#include "athanor/doctor/facts/system.h"

namespace athanor::doctor {
namespace {

constexpr size_t most_environments = 64;
constexpr size_t most_distributions = 4000;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The newest version, such as "3.11", whose lib/python3.11 has site-packages or the standard library.
std::string newest_library(const Machine& machine, const std::string& prefix) {
  std::string newest;
  for (const std::string& folder : machine.glob(prefix + "/lib/python3.*")) {
    const std::string version = name_of(folder).substr(6);
    if (!version.empty() && std::all_of(version.begin(), version.end(),
                                        [](char c) { return (c >= '0' && c <= '9') || c == '.'; }))
      newest = version;  // sorted so that 3.9 comes before 3.11
  }
  return newest;
}

// A distribution by the name of its record: "torch-2.9.0.dist-info", or the older
// "six-1.16.0-py3.11.egg-info".
std::optional<Distribution> distribution_of(const std::string& folder, const std::string& name) {
  const size_t end = name.rfind('.');
  const std::string_view kind = end == std::string::npos ? "" : std::string_view(name).substr(end);
  if (kind != ".dist-info" && kind != ".egg-info") return std::nullopt;
  // Names that begin differently are remains of an interrupted pip ("~orch-2.9.0.dist-info").
  const bool proper = (name[0] >= 'a' && name[0] <= 'z') || (name[0] >= 'A' && name[0] <= 'Z') ||
                      (name[0] >= '0' && name[0] <= '9') || name[0] == '_';
  if (!proper) return std::nullopt;
  std::string stem = name.substr(0, end);
  if (const size_t python = stem.rfind("-py3."); kind == ".egg-info" && python != std::string::npos)
    stem.resize(python);
  const size_t dash = kind == ".dist-info" ? stem.rfind('-') : stem.find('-');
  if (dash == 0 || (dash == std::string::npos && kind == ".dist-info")) return std::nullopt;
  return Distribution{normalized(stem.substr(0, dash)),
                      dash == std::string::npos ? "" : stem.substr(dash + 1),
                      fmt::format("{}/{}", folder, name)};
}

void add_distributions(const Machine& machine, PythonEnvironment& environment) {
  for (const std::string& folder : environment.site_packages)
    for (const std::string& name : machine.list(folder)) {
      if (environment.distributions.size() >= most_distributions) return;
      if (auto one = distribution_of(folder, name)) environment.distributions.push_back(std::move(*one));
    }
}

PythonEnvironment environment_at(const Machine& machine, const std::string& prefix) {
  PythonEnvironment environment;
  environment.prefix = prefix;
  const auto config = machine.read(prefix + "/pyvenv.cfg");
  environment.kind = config                                         ? "venv"
                     : machine.exists(prefix + "/conda-meta")       ? "conda"
                     : prefix.find("/.pyenv/") != std::string::npos ? "pyenv"
                                                                    : "system";
  environment.version = newest_library(machine, prefix);
  bool system_too = !config;
  for (const auto& [name, value] : parse_assignments(config.value_or(""))) {
    if (trim(name) == "include-system-site-packages") system_too = trim(value) == "true";
    // Of several lib/python3.* folders, only one belongs to the environment.
    if (trim(name) == "version" || trim(name) == "version_info") {
      const auto parts = split(trim(value), '.');
      if (parts.size() >= 2 && machine.exists(prefix + "/lib/python" + parts[0] + "." + parts[1]))
        environment.version = parts[0] + "." + parts[1];
    }
  }
  if (environment.kind == "system") {
    // The installed version that `python3` is.
    const std::string program = machine.resolve(prefix + "/bin/python3").value_or("");
    if (const std::string name = name_of(program); name.starts_with("python3."))
      environment.version = name.substr(6);
  }
  const std::string python = prefix + "/bin/python";
  environment.broken = config && machine.status(python).kind == FileStatus::Kind::link &&
                       !machine.resolve(python) && !machine.hidden(python);
  const std::string library = "/lib/python" + environment.version;
  std::vector<std::string> folders;
  const std::string home = machine.user().home;
  if (environment.kind != "venv" && !home.empty() && !machine.environment("PYTHONNOUSERSITE"))
    folders.push_back(path_in(home, ".local") + library + "/site-packages");
  folders.push_back(prefix + library + "/site-packages");
  if (environment.kind == "system" || (system_too && config)) {
    folders.push_back("/usr/local" + library + "/dist-packages");
    folders.push_back("/usr/lib/python3/dist-packages");
  }
  for (const std::string& folder : folders)
    if (machine.exists(folder)) environment.site_packages.push_back(folder);
  add_distributions(machine, environment);
  return environment;
}

}  // namespace

const Distribution* PythonEnvironment::find(std::string_view name) const {
  for (const Distribution& one : distributions)
    if (one.name == name) return &one;
  return nullptr;
}

std::vector<const Distribution*> PythonEnvironment::all(std::string_view name) const {
  std::vector<const Distribution*> found;
  for (const Distribution& one : distributions)
    if (one.name == name) found.push_back(&one);
  return found;
}

std::string PythonEnvironment::python() const {
  return prefix + "/bin/python" + (kind == "system" ? "3" : "");
}

std::vector<PythonEnvironment> read_pythons(const Machine& machine) {
  std::vector<std::string> on_path, others;
  const std::string home = machine.user().home;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto prefix = machine.environment(variable); prefix && !prefix->empty())
      on_path.push_back(*prefix);
  for (const std::string& folder : split(machine.environment("PATH").value_or("/usr/bin:/bin"), ':')) {
    if (!folder.starts_with("/")) continue;
    if (folder.ends_with("/.pyenv/shims")) {
      // Shims are scripts; this file says which version they start.
      const auto chosen = machine.read_line(folder_of(folder) + "/version");
      if (chosen) on_path.push_back(folder_of(folder) + "/versions/" + split(*chosen, '\n').front());
    } else if (machine.status(folder + "/python3").kind != FileStatus::Kind::missing) {
      on_path.push_back(folder_of(folder).empty() ? "/usr" : folder_of(folder));
    }
  }
  const auto add = [&](const std::string& pattern, const char* sign) {
    for (const std::string& found : machine.glob(pattern + sign))
      others.push_back(found.substr(0, found.size() - std::string_view(sign).size()));
  };
  if (!home.empty()) {
    for (const char* place : {"*", ".venv", ".virtualenvs/*", "venvs/*", "*/.venv", "*/venv", "*/env"})
      add(path_in(home, place), "/pyvenv.cfg");
    for (const char* place : {"*conda*", "*forge*", "*conda*/envs/*", "*forge*/envs/*", ".conda/envs/*"})
      add(path_in(home, place), "/conda-meta");
    add(path_in(home, ".pyenv/versions/*"), "/bin/python3");
  }
  add("/opt/*", "/pyvenv.cfg");
  add("/opt/*", "/conda-meta");
  add("/opt/*/envs/*", "/conda-meta");
  add("/usr", "/bin/python3");
  if (const auto folder = machine.environment("PWD"); folder && folder->starts_with("/"))
    for (const char* place : {"/.venv", "/venv"}) add(*folder + place, "/pyvenv.cfg");
  std::vector<PythonEnvironment> environments;
  std::set<std::string> seen;
  for (const auto* list : {&on_path, &others})
    for (const std::string& prefix : *list) {
      const std::string real = machine.resolve(prefix).value_or("");
      if (real.empty() || environments.size() >= most_environments || !seen.insert(real).second) continue;
      environments.push_back(environment_at(machine, prefix));
      environments.back().on_path = list == &on_path;
    }
  return environments;
}

}  // namespace athanor::doctor
