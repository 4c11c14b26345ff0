// Fused loops are checked as the tuner checks templates: by what the host makes of the same numbers.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Runs the kernel of a loop, or of several loops in one launch, and the host's kernels of them, on random
/// numbers: "buffer 2: element 7 of 100 is 1.5, not 2", or "" where both agree. A comparison of numbers that
/// are nearly equal may come out otherwise on two devices: so where few elements differ, others must, too, on
/// other numbers.
std::string loop_mismatch(Device device, const std::vector<LoopProgram>& loops, const Candidate& candidate);

/// The same once for a device, its driver and a loop: what agreed is remembered in athanor.db. Nothing for
/// the host, and where devices are trusted. Throws Error(device), naming `what`.
void require_right_loop(Device device, const std::vector<LoopProgram>& loops, const Candidate& candidate,
                        const std::string& what);

}  // namespace athanor
