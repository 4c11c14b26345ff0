// Packages of the distribution, from the records of dpkg, rpm and pacman.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "athanor/device/machine.h"

namespace athanor::doctor {

struct Packages {
  std::map<std::string, std::string> versions;  // versions of installed packages, by name
  std::string record;                           // the file or folder they come from; "" for none
  std::string unread;                           // a record that could not be read; "" for none
};

/// Reads rpm's record if it is an SQLite database (Fedora, RHEL 9 and later), but not earlier formats
/// (Berkeley DB) or openSUSE's (ndb).
Packages read_packages(const Machine& machine);

/// The installed packages in /var/lib/dpkg/status: versions by name.
std::map<std::string, std::string> parse_dpkg_status(std::string_view text);

/// Name and version ("glibc", "2.40-3.fc41") from a package's header in rpm's database, or from the header's
/// first bytes; empty if it is not a header. The header: the numbers of index entries and of bytes of data
/// (32 bits; all numbers are big-endian), the entries (tag, type, offset in the data, count), the data.
std::pair<std::string, std::string> parse_rpm_header(std::string_view header);

/// Name and version from a folder's name in pacman's record: "glibc-2.40+r16-1".
std::pair<std::string, std::string> parse_pacman_folder(std::string_view name);

}  // namespace athanor::doctor
