// Users' values for the heuristics that choose kernels and grids. They do not change what kernels see.
// `detect` shows them beside the facts, with the source "user".
//
//     ~/.config/athanor/devices.toml      (or $XDG_CONFIG_HOME/athanor/devices.toml)
//         ["*6800 XT*"]                   # a device: its name, PCI address or backend's name, with * and ?
//         compute_units = 72
//     ATHANOR_DEVICE_COMPUTE_UNITS=72     # every GPU; overrides the file
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor {

class Overrides {
 public:
  /// The names of properties that may be overridden.
  static const std::vector<std::string>& properties();

  /// Reads the file and the variables. Leaves out malformed entries and lists them in problems().
  explicit Overrides(const Machine& machine);

  /// The value for the device with any of `names` ("AMD Radeon RX 6800 XT", "0000:03:00.0", "opencl:0").
  std::optional<int64_t> find(const std::string& property, const std::vector<std::string>& names) const;
  const std::vector<std::string>& problems() const { return problems_; }
  bool empty() const { return everywhere_.empty() && by_device_.empty(); }

 private:
  std::map<std::string, int64_t> everywhere_;
  std::vector<std::pair<std::string, std::map<std::string, int64_t>>> by_device_;
  std::vector<std::string> problems_;
};

}  // namespace athanor
