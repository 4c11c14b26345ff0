// The system around the devices: release, kernel, boot, container.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor::doctor {

/// The contents of /etc/os-release.
struct Os {
  std::string id, version, name;  // "debian", "12", "Debian GNU/Linux 12 (bookworm)"
  /// The family of its package manager and paths: "debian", "fedora", "suse", "arch" or "other".
  std::string family = "other";
};

struct System {
  Os os;
  std::string kernel;     // "6.1.0-18-amd64"
  std::string container;  // "docker", "podman", "kubernetes", "lxc", ...; "" outside of one
  bool wsl = false;
  std::optional<bool> secure_boot;        // none: no UEFI, or not known
  std::vector<std::string> command_line;  // the kernel's command line, word by word

  /// Whether the kernel was started with a word: "nomodeset", "iommu=pt".
  bool started_with(std::string_view word) const;
};

System read_system(const Machine& machine);

/// Variables of a file in os-release's format, without quotes.
std::vector<std::pair<std::string, std::string>> parse_assignments(std::string_view text);

}  // namespace athanor::doctor
