// What vendors' extensions report about an OpenCL device: the matrix units that it may have, and the number
// of its compute units.
#pragma once
#include "athanor/backends/opencl/api.h"  // first: it sets the version of OpenCL

#include <vector>

#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor::opencl {

/// For a GPU: the matrix units to try.
std::vector<MatrixUnit> units_to_try(cl_device_id id);

/// How many units hold a group and its local memory. Intel's drivers count vector engines instead, of which
/// such a unit has several.
cl_uint compute_units_of(cl_device_id id);

}  // namespace athanor::opencl
