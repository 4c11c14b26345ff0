// The slowest kernel of an op: its reference, in float64, on the host.
#pragma once
#include "athanor/kernels/kernel.h"

namespace athanor {

/// For an op with a reference whose operands are dense, on the host.
Candidate reference_kernel(const KernelRequest& request);

}  // namespace athanor
