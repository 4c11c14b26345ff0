// The traits of devices in tests. With ATHANOR_TEST_TILES=1 all OpenCL devices multiply tiles by lanes, so
// that the tests of tiles run on a processor too.
#pragma once
#include <cstdlib>

#include "athanor/backends/gpu/backend.h"

namespace athanor::testing {

/// The traits with tiles by lanes, as if these were the best guess.
inline GpuTraits with_lane_tiles(GpuTraits traits) {
  traits.lane_units = lane_units(GpuTarget::opencl, "");
  traits.registers = traits.lanes_lead = true;
  return traits;
}

inline const GpuTraits& traits_of(gpu::GpuDevice& device) {
  if (std::getenv("ATHANOR_TEST_TILES") != nullptr && !device.traits().registers)
    device.set_traits(with_lane_tiles(device.traits()));
  return device.traits();
}
inline const GpuTraits& traits_of(Device device) { return traits_of(gpu::gpu_device(device)); }

/// Whether a virtual AMD GPU lacks the unit's instruction: WMMA and MFMA of floats of 8 bits.
inline bool virtual_gpu_lacks(const MatrixUnit& unit) {
  const bool of_amd = unit.form == MatrixUnit::Form::wmma || unit.form == MatrixUnit::Form::mfma;
  return std::getenv("VGPU") != nullptr && of_amd && size_of(unit.input) == 1 && is_float(unit.input);
}

}  // namespace athanor::testing
