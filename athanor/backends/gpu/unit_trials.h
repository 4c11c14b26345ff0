// Which units multiply right on a device whose driver does not say what it has: each is tried.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

class GpuDevice;

/// Multiplies two matrices by the tile engine's kernel for each unit and compares every element with the
/// host's: the units whose kernel compiles, runs, and is right; of those for one type and size the first.
/// What came of it is remembered in athanor.db until the driver or the kernel changes. A trial that ended the
/// process is not repeated.
/// `traits`: of the device. `change`: makes another kernel of each, for tests.
std::vector<MatrixUnit> units_that_work(GpuDevice& device, const GpuTraits& traits,
                                        std::span<const MatrixUnit> units,
                                        const std::function<void(GpuLaunch&)>& change = {});

}  // namespace athanor::gpu
