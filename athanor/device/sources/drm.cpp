// The graphics driver's count of AMD's compute units; KFD's count is checked against it. Runs in a child
// process like runtimes, because an ioctl on a card that hangs does not return.
#include <charconv>
#include <nlohmann/json.hpp>

#include "athanor/base/os/amdgpu.h"
#include "athanor/device/machine.h"
#include "athanor/device/runtimes.h"

namespace athanor {
namespace {

nlohmann::json ask() {
  const Machine machine;
  nlohmann::json devices = nlohmann::json::array();
  for (const std::string& node : machine.glob("/dev/dri/renderD*")) {
    const std::string name = node.substr(node.rfind('/') + 1);
    const std::string uevent = machine.read("/sys/class/drm/" + name + "/device/uevent").value_or("");
    if (uevent.find("DRIVER=amdgpu\n") == std::string::npos) continue;
    const auto info = os::amdgpu_info(node);
    int64_t minor = -1;
    std::from_chars(name.data() + 7, name.data() + name.size(), minor);
    if (!info || minor < 0) continue;
    devices.push_back({{"vendor", "AMD"},
                       {"render_minor", minor},
                       {"compute_units", info->compute_units},
                       {"wave_width", info->wave_width},
                       {"memory_bus_bits", info->memory_bus_bits}});
  }
  if (devices.empty()) return {{"error", "no amdgpu card that it could be asked about"}};
  return {{"devices", devices}};
}

[[maybe_unused]] const bool registered = register_runtime({"drm", "", ask});

}  // namespace
}  // namespace athanor
