#include "athanor/doctor/facts/packages.h"

#include <cstdint>

#include "athanor/base/sqlite.h"

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

std::pair<std::string, std::string> parse_rpm_header(std::string_view header) {
  constexpr size_t entry_bytes = 16, head_bytes = 8;
  constexpr uint32_t name_tag = 1000, version_tag = 1001, release_tag = 1002, text_type = 6;
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(header[at + i]);
    return value;
  };
  if (header.size() < head_bytes) return {};
  const size_t entries = number(0), data = head_bytes + entries * entry_bytes;
  if (data >= header.size()) return {};
  std::string name, version, release;
  for (size_t at = head_bytes; at < data; at += entry_bytes) {
    const uint32_t tag = number(at);
    const size_t offset = data + number(at + 8);
    if (tag < name_tag || tag > release_tag || number(at + 4) != text_type || offset >= header.size())
      continue;
    const std::string_view rest = header.substr(offset);
    const size_t end = rest.find('\0');
    if (end == std::string_view::npos) continue;
    (tag == name_tag ? name : tag == version_tag ? version : release) = rest.substr(0, end);
  }
  if (name.empty() || version.empty()) return {};
  return {name, release.empty() ? version : version + "-" + release};
}

std::pair<std::string, std::string> parse_pacman_folder(std::string_view name) {
  const size_t release = name.rfind('-');
  if (release == std::string_view::npos || release == 0) return {};
  const size_t version = name.rfind('-', release - 1);
  if (version == std::string_view::npos) return {};
  return {std::string(name.substr(0, version)), std::string(name.substr(version + 1))};
}

namespace {

// The folders of rpm's database: today's, and the earlier one.
constexpr const char* rpm_folders[] = {"/usr/lib/sysimage/rpm", "/var/lib/rpm"};

bool read_rpm(const Machine& machine, const std::string& file, Packages& packages) {
  const auto resolved = machine.resolve(file);
  if (!resolved) return false;
  sqlite3* database = open_foreign_database(machine.root() / resolved->substr(1));
  if (database == nullptr) return false;
  constexpr size_t first_bytes = size_t{64} << 10;
  {
    // A package's list of files comes after its name, so the whole header need not be read.
    SqlStatement rows(database, "SELECT rowid FROM Packages LIMIT 100000");
    while (rows.step()) {
      auto [name, version] =
          parse_rpm_header(read_blob(database, "Packages", "blob", rows.integer(0), first_bytes));
      if (!name.empty()) packages.versions.insert_or_assign(std::move(name), std::move(version));
    }
  }
  close_database(database);
  return !packages.versions.empty();
}

}  // namespace

Packages read_packages(const Machine& machine) {
  Packages packages;
  constexpr size_t largest = size_t{32} << 20;
  const std::string dpkg = "/var/lib/dpkg/status", pacman = "/var/lib/pacman/local";
  if (const auto text = machine.read(dpkg, largest)) {
    packages.versions = parse_dpkg_status(*text);
    if (!packages.versions.empty()) packages.record = dpkg;
  }
  for (const std::string folder : rpm_folders) {
    // A Debian system may have rpm too; dpkg's record is the better one.
    if (!packages.record.empty() || !packages.unread.empty()) break;
    for (const char* file : {"/rpmdb.sqlite", "/Packages.db", "/Packages"}) {
      if (!machine.exists(folder + file)) continue;
      const bool known =
          std::string_view(file) == "/rpmdb.sqlite" && read_rpm(machine, folder + file, packages);
      (known ? packages.record : packages.unread) = folder + file;
      break;
    }
  }
  if (packages.record.empty() && machine.exists(pacman)) {
    for (const std::string& folder : machine.list(pacman))
      if (auto [name, version] = parse_pacman_folder(folder); !name.empty())
        packages.versions[std::move(name)] = std::move(version);
    if (!packages.versions.empty()) packages.record = pacman;
  }
  return packages;
}

}  // namespace athanor::doctor
