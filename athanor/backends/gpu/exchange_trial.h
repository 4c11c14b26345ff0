// Whether the lanes of a unit's wave exchange registers as kernels need it.
#pragma once
#include <cstdint>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

/// A kernel in which the lanes of two waves exchange numbers in every way that products and attention do: by
/// SHUFFLE_XOR and by EXCHANGE, over each distance. Its only buffer is its result.
struct ExchangeTrial {
  GpuLaunch launch;
  std::vector<uint32_t> want;
};
ExchangeTrial exchange_trial(const MatrixUnit& unit);

}  // namespace athanor::gpu
