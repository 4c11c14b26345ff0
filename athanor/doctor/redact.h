// Removes from a machine's texts everything that shows whose it is.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "athanor/device/machine.h"

namespace athanor::doctor {

/// Replaces the names of the machine's users and hosts, MAC and IP addresses, UUIDs, serial numbers and
/// e-mail addresses by a word in angle brackets: "<user>", "<host>", "<mac>", "<ip>", "<uuid>", "<serial>",
/// "<mail>".
class Redaction {
 public:
  /// Takes names from /etc/passwd (people: uid 1000 and above, and the current user), home folders,
  /// /etc/hostname, the kernel's host name and HOSTNAME.
  explicit Redaction(const Machine& machine);

  std::string operator()(std::string_view text) const;

 private:
  std::set<std::string, std::greater<>> users_, hosts_, serials_;
};

}  // namespace athanor::doctor
