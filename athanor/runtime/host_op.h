// Ops that run on the host inside a plan of another device, because the user allows them there by name.
#pragma once
#include <span>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Memory that an operand lies in: `offset` bytes into a storage.
struct HostOperand {
  Storage* storage = nullptr;
  int64_t offset = 0;
};

/// Copies the inputs to the host, computes the op's reference meaning in float64, and copies the result back.
/// Waits for the device before and after.
void run_on_host(const KernelRequest& request, std::span<const HostOperand> inputs, HostOperand output);

}  // namespace athanor
