#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"

namespace athanor {

std::string gpu_slow_in(DType dtype, const GpuTraits& traits) {
  const auto units = gpu::tile_units(dtype, false, traits);
  if (std::ranges::any_of(
          units, [&](const MatrixUnit* unit) { return unit->input == dtype || size_of(unit->input) < 4; }))
    return {};
  return fmt::format(
      "Athanor's kernels use no instruction for products of {}: they compute them in f32, at f32's speed. "
      "Activations still take half the memory",
      to_string(dtype));
}

}  // namespace athanor
