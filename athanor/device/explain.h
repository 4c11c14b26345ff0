// The meaning of a device's numbers if its sources disagree.
#pragma once
#include "athanor/device/detect.h"

namespace athanor {

/// Tells apart compute units and work-group processors of AMD devices, and cores and threads of CPUs. Adds
/// the mode in which kernels are launched. Corrects KFD where it is known to be wrong.
void explain_units(FoundDevice& device, const Machine& machine);
/// Says why readings of a property differ.
void explain_conflicts(FoundDevice& device);
/// Limits the best link to what the card, the slot and the data sheet allow, and adds notes about links.
void explain_links(FoundDevice& device);
/// Reading::meaning of the slot's pcie_link_best; the card's own has none.
inline constexpr const char* slot_link = "of the slot";
/// Adds the properties f16, bf16 and matrix_units, by architecture.
void add_features(FoundDevice& device);

/// 10 for "gfx1030", 9 for "gfx90a"; 0 for a name that is no AMD architecture.
int gfx_major(const std::string& architecture);
/// 89 for "sm_89", 0 otherwise.
int sm_version(const std::string& architecture);

}  // namespace athanor
