// Which sightings are of the same device.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/device/sighting.h"

namespace athanor {

/// Sightings of one device, and what identifies them as one.
struct Group {
  std::string kind, pci, uuid, vendor, arch;
  int64_t partition = 0, render_minor = -1;
  std::vector<const Sighting*> seen;
};

/// By UUID, render node, PCI address and part; a sighting without any of them belongs to the first device of
/// its vendor and architecture that its source has not reported yet. GPUs come first, in the bus's order.
std::vector<Group> groups_of(const std::vector<Sighting>& sightings);

/// For each device that backends list, the number of its GPU: equal for several backends' devices on one GPU.
std::vector<size_t> cards_of(const std::vector<DeviceInfo>& devices);

/// "AMD" of "Advanced Micro Devices, Inc."; an unknown vendor's name stays as it is.
std::string vendor_by_name(const std::string& text);

}  // namespace athanor
