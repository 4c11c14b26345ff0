// What the numbers of a device mean if its sources disagree.
#pragma once
#include "athanor/device/detect.h"

namespace athanor {

/// Tells compute units and work-group processors of AMD devices apart, with the mode in which kernels are
/// launched, and cores and threads of CPUs. Corrects KFD where it is known to be wrong.
void explain_units(FoundDevice& device, const Machine& machine);
/// Says why readings of a property differ.
void explain_conflicts(FoundDevice& device);
/// Limits what a link can reach at best to what the card, the slot and the data sheet have; notes of links.
void explain_links(FoundDevice& device);
/// The meaning of a reading of pcie_link_best that is the slot's, and not the card's.
inline constexpr const char* slot_link = "of the slot";
/// Adds f16, bf16 and matrix units, by architecture.
void add_features(FoundDevice& device);

/// 10 for "gfx1030", 9 for "gfx90a"; 0 for a name that is no AMD architecture.
int gfx_major(const std::string& architecture);
/// 89 for "sm_89", 0 otherwise.
int sm_version(const std::string& architecture);

}  // namespace athanor
