// Which units multiply correctly on a device whose driver does not report its units: each is tried.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

class GpuDevice;

/// Multiplies two matrices by the tile engine's kernel for each unit and compares every element with the
/// host's. If kernels for the unit exchange registers between lanes, its lanes exchange some, too, once for
/// all units whose exchanges have the same text. Returns the units whose kernels compile, run and are right:
/// the first for each type and size. The outcomes are kept in athanor.db until the driver or the kernel
/// changes. A trial that ended the process is not repeated.
/// `traits`: the device's. `change`: changes each kernel, for tests.
std::vector<MatrixUnit> units_that_work(GpuDevice& device, const GpuTraits& traits,
                                        std::span<const MatrixUnit> units,
                                        const std::function<void(GpuLaunch&)>& change = {});

}  // namespace athanor::gpu
