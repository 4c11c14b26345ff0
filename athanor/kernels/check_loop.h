// Checks fused loops as the tuner checks templates: against the host's results for the same numbers.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Runs the kernel of a loop, or of loops that run together, and the host's kernels of them, on random
/// numbers: "buffer 2: element 7 of 100 is 1.5, not 2", or "" if both agree. Of a long loop, the host
/// computes three parts, and only these are compared. Comparing nearly equal numbers may give different
/// results on two devices. So if few elements differ, the check is repeated with other numbers.
std::string loop_mismatch(Device device, const std::vector<LoopProgram>& loops, const Candidate& candidate);

/// The same, once for a device, its driver and a loop: agreement is remembered in athanor.db. Does nothing
/// for the host, for trusted devices, or if there is too little memory for it. Throws Error(device), naming
/// `what`.
void require_right_loop(Device device, const std::vector<LoopProgram>& loops, const Candidate& candidate,
                        const std::string& what);

}  // namespace athanor
