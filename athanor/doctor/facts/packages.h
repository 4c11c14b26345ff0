// Packages of the distribution, from dpkg's own record. (rpm keeps a database that needs its library: of
// such systems nothing is known here.)
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "athanor/device/machine.h"

namespace athanor::doctor {

/// Version by name of the packages in /var/lib/dpkg/status that are installed.
std::map<std::string, std::string> parse_dpkg_status(std::string_view text);

std::map<std::string, std::string> read_packages(const Machine& machine);

}  // namespace athanor::doctor
