// Epilogues for kernels that cannot compute them themselves.
#pragma once
#include "athanor/kernels/kernel.h"

namespace athanor {

/// A candidate for `request`, which has an epilogue: `contraction`, a kernel of the same device for the
/// problem without it (without_epilogue), whose result goes to scratch memory, then `loop`, the device's
/// kernel for the epilogue.
Candidate finish_by_loop(Candidate contraction, Candidate loop, const KernelRequest& request);

}  // namespace athanor
