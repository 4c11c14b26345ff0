// Ops that run on the host inside a plan of another device, because the user allowed these ops by name.
#pragma once
#include <span>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Copies the inputs to the host, computes the op's reference meaning in float64, and copies the result back.
/// The device must have computed the inputs.
void run_on_host(const KernelRequest& request, std::span<const Binding> inputs, Binding output);

}  // namespace athanor
