// A GPU that Windows shares with Linux (WSL 2): /dev/dxg, and no device on a PCI bus. Runtimes report what it
// is; without their answers, Windows' driver in /usr/lib/wsl/lib tells the vendor.
#include "athanor/device/sighting.h"

namespace athanor {

std::vector<Sighting> sightings_of_wsl(const Machine& machine) {
  if (!machine.exists("/dev/dxg") || machine.glob("/usr/lib/wsl/lib/libcuda.so*").empty()) return {};
  Sighting seen;
  seen.source = "wsl";
  seen.kind = "gpu";
  seen.add("vendor", Value("NVIDIA"));
  return {seen};
}

}  // namespace athanor
