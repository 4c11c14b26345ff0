// The host's result of a request for any device, which decides whether a device's kernel is right.
#pragma once
#include "athanor/kernels/trial_results.h"

namespace athanor {

/// The request's result by the host's own kernel on a Trial's numbers; {} if it has none.
TrialResults host_result(const KernelRequest& request);

}  // namespace athanor
