// Groups sightings of the same device.
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

/// Groups sightings by UUID, render node, PCI address and part. A sighting without any of these belongs to
/// the first device of its vendor and architecture that its source has not reported yet. GPUs come first, in
/// the order of their PCI addresses.
std::vector<Group> groups_of(const std::vector<Sighting>& sightings);

/// For each device that backends list: the number of its card. It is the same for devices of different
/// backends on one card.
std::vector<size_t> cards_of(const std::vector<DeviceInfo>& devices);

/// "AMD" for "Advanced Micro Devices, Inc."; an unknown vendor's name is not changed.
std::string vendor_by_name(const std::string& text);

}  // namespace athanor
