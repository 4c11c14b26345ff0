#include "athanor/doctor/facts/packages.h"

namespace athanor::doctor {

std::map<std::string, std::string> parse_dpkg_status(std::string_view text) {
  std::map<std::string, std::string> packages;
  std::string name, version;
  bool installed = false;
  const auto keep = [&] {
    if (installed && !name.empty()) packages[name] = version;
    name.clear(), version.clear(), installed = false;
  };
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty())
      keep();
    else if (line.starts_with("Package: "))
      name = line.substr(9);
    else if (line.starts_with("Version: "))
      version = line.substr(9);
    else if (line.starts_with("Status: "))
      installed = line.ends_with(" installed");
  }
  keep();
  return packages;
}

std::map<std::string, std::string> read_packages(const Machine& machine) {
  constexpr size_t largest = size_t{32} << 20;
  return parse_dpkg_status(machine.read("/var/lib/dpkg/status", largest).value_or(""));
}

}  // namespace athanor::doctor
