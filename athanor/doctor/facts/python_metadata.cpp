#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/facts/python.h"
#include "athanor/doctor/version.h"

namespace athanor::doctor {
namespace {

// The value of "name = 'x'" or "name: Optional[str] = 'x'" in Python source; "" for None, or if there is no
// such name.
std::string python_string(std::string_view text, std::string_view name) {
  for (const std::string& raw : split(text, '\n')) {
    const std::string line = trim(raw);
    if (!line.starts_with(name)) continue;
    std::string_view rest = std::string_view(line).substr(name.size());
    if (!rest.empty() && rest[0] != ' ' && rest[0] != ':' && rest[0] != '=') continue;
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string value = trim(rest.substr(equals + 1));
    if (value.size() >= 2 && (value[0] == '\'' || value[0] == '"')) {
      const size_t end = value.find(value[0], 1);
      return end == std::string::npos ? std::string() : value.substr(1, end - 1);
    }
    return {};
  }
  return {};
}

}  // namespace

std::string normalized(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (separator && !plain.empty() && plain.back() == '-') continue;
    plain += separator ? '-' : (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return plain;
}

std::vector<std::pair<std::string, std::string>> parse_metadata(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const std::string& line : split(text, '\n')) {
    if (trim(line).empty()) break;  // the description follows
    if ((line[0] == ' ' || line[0] == '\t') && !fields.empty()) {
      fields.back().second += " " + trim(line);
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    fields.emplace_back(line.substr(0, colon), trim(std::string_view(line).substr(colon + 1)));
  }
  return fields;
}

std::string cuda_of_flavour(std::string_view flavour) {
  // The last digit is the minor version.
  if (!flavour.starts_with("cu") || flavour.size() < 5 || flavour.size() > 6) return {};
  const std::string_view digits = flavour.substr(2);
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  return std::string(digits.substr(0, digits.size() - 1)) + "." + digits.back();
}

std::optional<TorchBuild> read_torch(const Machine& machine, const PythonEnvironment& environment) {
  const Distribution* torch = environment.find("torch");
  if (torch == nullptr) return std::nullopt;
  TorchBuild build;
  build.environment = &environment;
  build.version = torch->version;
  build.flavour = local_version(torch->version);
  build.source = torch->folder + "/METADATA";
  const std::string folder = torch->folder.substr(0, torch->folder.rfind('/')) + "/torch";
  if (machine.exists(folder)) build.folder = folder;
  if (const auto text = machine.read(folder + "/version.py")) {
    // PyPI's own wheels have no local version; only this file has their flavour.
    const std::string whole = python_string(*text, "__version__");
    if (!whole.empty()) build.version = whole, build.source = folder + "/version.py";
    if (build.flavour.empty()) build.flavour = local_version(whole);
    build.cuda = python_string(*text, "cuda");
    build.rocm = python_string(*text, "hip");
    if (build.flavour.empty() && build.cuda.empty() && build.rocm.empty()) build.flavour = "cpu";
  }
  if (build.cuda.empty()) build.cuda = cuda_of_flavour(build.flavour);
  if (build.flavour.starts_with("rocm"))
    build.rocm = build.flavour.substr(4);
  else if (const auto version = Version::parse(build.rocm))
    build.rocm = version->first(2).text();  // "6.2.41134-65d174c3e" ends with the build
  if (build.flavour.empty() && !build.cuda.empty()) {
    build.flavour = "cu" + build.cuda;
    build.flavour.erase(std::remove(build.flavour.begin(), build.flavour.end(), '.'), build.flavour.end());
  }
  if (build.flavour.empty() && !build.rocm.empty()) build.flavour = "rocm" + build.rocm;
  return build;
}

}  // namespace athanor::doctor
