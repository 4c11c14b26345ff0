// What kernels computed on the same numbers, and whether it is the same.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/kernels/kernel.h"

namespace athanor {

/// The outputs of one run: all elements of each or, of a large one, those at its begin, middle and end.
using TrialResults = std::vector<HostArray>;

/// The elements of an output that are compared. `read` copies its bytes from an offset on.
HostArray compared(const OperandDesc& output, const std::function<void(size_t, std::span<std::byte>)>& read);

/// Whether two results differ by no more than rounding in the type that the request computes in.
bool agree(const TrialResults& a, const TrialResults& b, const KernelRequest& request);

}  // namespace athanor
