// Packages of the distribution, from the records of dpkg, rpm and pacman.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "athanor/device/machine.h"

namespace athanor::doctor {

struct Packages {
  std::map<std::string, std::string> versions;  // by name; of what is installed
  std::string record;                           // the file or folder that says so; "" for none
  std::string unread;                           // a record that could not be read; "" for none
};

/// rpm's record is read where it is an SQLite database (Fedora, RHEL 9 and later); the formats before it
/// (Berkeley DB) and of openSUSE (ndb) are not.
Packages read_packages(const Machine& machine);

/// Version by name of the packages in /var/lib/dpkg/status that are installed.
std::map<std::string, std::string> parse_dpkg_status(std::string_view text);

/// Name and version ("glibc", "2.40-3.fc41") of a package's header as rpm's database keeps it, or its first
/// bytes; empty for what is none. The header: the numbers of index entries and of bytes of data (32 bits,
/// big-endian, as all of it), the entries (tag, type, offset in the data, count), the data.
std::pair<std::string, std::string> parse_rpm_header(std::string_view header);

/// Of a folder's name in pacman's record: "glibc-2.40+r16-1".
std::pair<std::string, std::string> parse_pacman_folder(std::string_view name);

}  // namespace athanor::doctor
