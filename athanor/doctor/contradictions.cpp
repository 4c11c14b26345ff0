#include "athanor/doctor/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "athanor/base/text.h"
#include "athanor/doctor/facts/system.h"

namespace athanor::doctor {
namespace {

constexpr size_t most_metadata_bytes = 256 << 10;

struct Required {
  const Distribution* by = nullptr;
  Requirement what;
  std::string text;
};

// Packages of the distribution: its own tools keep them consistent.
bool of_the_system(const Distribution& one) {
  return one.folder.starts_with("/usr/lib/") || one.folder.starts_with("/usr/lib64/") ||
         one.folder.starts_with("/lib/");
}

bool is_framework(std::string_view name) {
  constexpr std::array names = {"torch", "torchvision", "torchaudio",  "tensorflow",      "tensorflow-rocm",
                                "jax",   "jaxlib",      "onnxruntime", "onnxruntime-gpu", "keras"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Everything that the packages require, including requirements of extras that other packages ask for.
std::vector<Required> requirements(const Machine& machine, const PythonEnvironment& environment,
                                   const MarkerValues& values, std::vector<std::string>& unknown) {
  std::map<const Distribution*, std::vector<Required>> lists;
  for (const Distribution& one : environment.distributions) {
    if (of_the_system(one) || !one.folder.ends_with(".dist-info") || environment.all(one.name).size() > 1)
      continue;
    const auto text = machine.read(one.folder + "/METADATA", most_metadata_bytes);
    for (const auto& [field, value] : parse_metadata(text.value_or("")))
      if (field == "Requires-Dist") {
        if (auto what = Requirement::parse(value))
          lists[&one].push_back({&one, std::move(*what), value.substr(0, value.find(';'))});
        else
          unknown.push_back(fmt::format("{}: {}", one.name, value));
      }
  }
  std::vector<Required> all;
  std::set<std::pair<const Distribution*, std::string>> seen;
  std::vector<std::pair<const Distribution*, std::string>>
      open;  // a package and one of its extras, "" for itself
  for (const auto& [by, list] : lists) open.emplace_back(by, "");
  while (!open.empty()) {
    const auto [by, extra] = open.back();
    open.pop_back();
    if (!seen.insert({by, extra}).second) continue;
    MarkerValues with_extra = values;
    with_extra["extra"] = extra;
    for (const Required& one : lists[by]) {
      // If a requirement holds without an extra too, it was looked at before.
      const Truth plain = extra.empty() ? Truth::no : [&] {
        MarkerValues none = values;
        none["extra"] = "";
        return holds(one.what.marker, none);
      }();
      const Truth here = holds(one.what.marker, with_extra);
      if (here == Truth::no || plain != Truth::no) continue;
      const Distribution* target = environment.find(one.what.name);
      if (here == Truth::unknown) {
        if (target == nullptr || satisfies(target->version, one.what.specifiers) != Truth::yes)
          unknown.push_back(fmt::format("{}: {}; {}", by->name, trim(one.text), one.what.marker));
        continue;
      }
      all.push_back(one);
      if (target != nullptr)
        for (const std::string& name : one.what.extras) open.emplace_back(target, name);
    }
  }
  return all;
}

Truth suits(const Required& one, const std::vector<const Distribution*>& there) {
  if (one.what.url) return there.empty() ? Truth::no : Truth::unknown;
  Truth any = Truth::no;
  for (const Distribution* package : there)
    any = either(
        any, package->version.empty() ? Truth::unknown : satisfies(package->version, one.what.specifiers));
  return any;
}

// Whether some version satisfies both: one that either names, one a little above it, or the first of all.
bool can_agree(const std::string& a, const std::string& b) {
  std::vector<std::string> versions = {"0"};
  for (const std::string& specifiers : {a, b})
    for (const std::string& one : split(specifiers, ',')) {
      std::string version =
          trim(std::string_view(one).substr(std::min(one.size(), one.find_first_not_of(" =!<>~"))));
      if (version.ends_with(".*")) version.resize(version.size() - 2);
      versions.push_back(version);
      versions.push_back(version + ".1");
    }
  return std::any_of(versions.begin(), versions.end(), [&](const std::string& version) {
    return both(satisfies(version, a), satisfies(version, b)) == Truth::yes;
  });
}

// Whether conda has the package: its packages may lack Python's records.
bool known_to_conda(const Machine& machine, const PythonEnvironment& environment, const std::string& name) {
  return environment.kind == "conda" &&
         !machine.glob(fmt::format("{}/conda-meta/{}-*.json", environment.prefix, name)).empty();
}

}  // namespace

std::string Contradiction::found() const {
  return there == nullptr ? name + ": -" : fmt::format("{} {}", there->name, there->version);
}

MarkerValues marker_values(const Machine& machine, const PythonEnvironment& environment) {
  // lib/python3.12 is CPython's, and only Linux machines are read here.
  MarkerValues values = {{"os_name", "posix"},
                         {"sys_platform", "linux"},
                         {"platform_system", "Linux"},
                         {"implementation_name", "cpython"},
                         {"platform_python_implementation", "CPython"}};
  if (!environment.version.empty()) values["python_version"] = environment.version;
  for (const auto& [name, value] :
       parse_assignments(machine.read(environment.prefix + "/pyvenv.cfg").value_or("")))
    if (trim(name) == "version" || trim(name) == "version_info") {
      const auto parts = split(trim(value), '.');
      if (parts.size() >= 3) {
        const std::string full = fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
        values["python_full_version"] = full;
        values["implementation_version"] = full;
      }
    }
  for (const auto& [loader, name] :
       {std::pair{"/lib64/ld-linux-x86-64.so.2", "x86_64"}, std::pair{"/lib/x86_64-linux-gnu", "x86_64"},
        std::pair{"/usr/lib/x86_64-linux-gnu", "x86_64"}, std::pair{"/lib/ld-linux-aarch64.so.1", "aarch64"},
        std::pair{"/usr/lib/aarch64-linux-gnu", "aarch64"}})
    if (machine.exists(loader)) {
      values["platform_machine"] = name;
      break;
    }
  return values;
}

Contradictions contradictions(const Machine& machine, const PythonEnvironment& environment) {
  Contradictions result;
  const auto all = requirements(machine, environment, marker_values(machine, environment), result.unknown);
  std::set<std::string> told;
  for (const Required& one : all) {
    const auto there = environment.all(one.what.name);
    const Truth verdict = suits(one, there);
    if (verdict == Truth::yes || !told.insert(one.by->name + " " + one.text).second) continue;
    if (verdict == Truth::unknown || (there.empty() && known_to_conda(machine, environment, one.what.name))) {
      // The version behind a URL is not known.
      if (!one.what.url) result.unknown.push_back(fmt::format("{}: {}", one.by->name, trim(one.text)));
      continue;
    }
    Contradiction found;
    found.by = one.by;
    found.requirement = trim(one.text);
    found.version_wanted = one.what.name +
                           (one.what.extras.empty() ? "" : "[" + join(one.what.extras, ",") + "]") +
                           one.what.specifiers;
    std::erase(found.version_wanted, ' ');
    found.name = one.what.name;
    found.there = there.empty() ? nullptr : there.front();
    const bool grave =
        there.empty() || one.what.name == "torch" || one.what.name == "jaxlib" || one.what.name == "numpy";
    found.severe = is_framework(one.by->name) && grave;
    for (const Required& other : all)
      if (other.by != one.by && other.what.name == one.what.name &&
          !can_agree(one.what.specifiers, other.what.specifiers))
        found.others.push_back(fmt::format("{} ({})", other.by->name, trim(other.text)));
    result.found.push_back(std::move(found));
  }
  std::stable_partition(result.found.begin(), result.found.end(),
                        [](const Contradiction& one) { return one.severe; });
  return result;
}

}  // namespace athanor::doctor
