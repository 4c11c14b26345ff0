// Which units multiply right on a device whose driver does not say what it has: each is tried.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

class GpuDevice;

/// Multiplies two matrices by the tile engine's kernel for each unit and compares every element with the
/// host's: the units whose kernel compiles, runs, and is right. What came of it is remembered in athanor.db
/// until the driver or the kernel changes. A trial that ended the process is not repeated.
/// `traits`: of the device. `before`: a text that is put before each kernel, for tests.
std::vector<MatrixUnit> units_that_work(GpuDevice& device, const GpuTraits& traits,
                                        std::span<const MatrixUnit> units, std::string_view before = {});

}  // namespace athanor::gpu
