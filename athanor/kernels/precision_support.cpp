#include "athanor/kernels/precision_support.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/kernels/kernel.h"

namespace athanor {
namespace {

/// Whether the device has tf32 kernels for a product of ordinary size.
bool multiplies_in_tf32(Device device) {
  constexpr int64_t extent = 256;
  const Shape shape{1, extent, extent};
  const OperandDesc matrix{DType::f32, shape, {}, contiguous_strides(shape)};
  const KernelRequest request{.op = &find_primitive(Prim::batch_matmul),
                              .attrs = {},
                              .inputs = {matrix, matrix},
                              .outputs = {matrix},
                              .epilogue = {},
                              .compute = ComputeType::tf32};
  return !backend_of(device).candidates(device.index, request).empty();
}

}  // namespace

std::string require_precision(Device device, Precision precision) {
  switch (precision) {
    case Precision::f32:
      return {};
    case Precision::tf32:
      if (!multiplies_in_tf32(device))
        throw Error(
            ErrorCode::usage, fmt::format("{} does not multiply in tf32", to_string(device)), "--precision",
            "tf32 is f32 whose factors are rounded to 10 bits of mantissa, for matrix units: NVIDIA's "
            "from sm_80 on, and those of AMD's gfx942 (xf32). Use bf16 to be faster here, or f32 to be as "
            "exact");
      return {};
    case Precision::bf16:
    case Precision::f16:
      break;
  }
  const std::string why = backend_of(device).slow_in(device.index, stored_in(precision));
  return why.empty() ? why : fmt::format("on {}, {}", to_string(device), why);
}

}  // namespace athanor
