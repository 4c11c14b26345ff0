// A GPU that Windows shows the Linux beside it (WSL 2): /dev/dxg, and no device on a PCI bus. What it is,
// runtimes tell; without their answers Windows' driver in /usr/lib/wsl/lib tells its maker.
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
