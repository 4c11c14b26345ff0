#include "athanor/backends/opencl/units.h"

#include <CL/cl_ext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "athanor/kernels/gpu/opencl_units.h"

namespace athanor::opencl {
namespace {

cl_uint number(cl_device_id id, cl_device_info what) {
  cl_uint value = 0;
  return api().GetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : 0;
}

int least_wave(cl_device_id id) {
  std::array<size_t, 16> waves{};
  size_t bytes = 0;
  if (!has_extension(id, "cl_intel_required_subgroup_size") ||
      api().GetDeviceInfo(id, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof waves, waves.data(), &bytes) !=
          CL_SUCCESS ||
      bytes == 0 || bytes > sizeof waves)
    return 0;
  return static_cast<int>(*std::min_element(waves.data(), waves.data() + bytes / sizeof(size_t)));
}

}  // namespace

std::vector<MatrixUnit> units_to_try(cl_device_id id) {
  return opencl_units({.least_wave = least_wave(id),
                       .amd = has_extension(id, "cl_amd_device_attribute_query"),
                       .nvidia = has_extension(id, "cl_nv_device_attribute_query"),
                       .dots = has_extension(id, "cl_khr_integer_dot_product")});
}

cl_uint compute_units_of(cl_device_id id) {
  if (has_extension(id, "cl_intel_device_attribute_query"))
    if (const cl_uint cores =
            number(id, CL_DEVICE_NUM_SLICES_INTEL) * number(id, CL_DEVICE_NUM_SUB_SLICES_PER_SLICE_INTEL);
        cores > 0)
      return cores;
  return number(id, CL_DEVICE_MAX_COMPUTE_UNITS);
}

}  // namespace athanor::opencl
