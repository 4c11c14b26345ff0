// What an OpenCL device may multiply with, and how many of its units hold a group: what vendors' extensions
// tell.
#pragma once
#include "athanor/backends/opencl/api.h"  // first: it sets the version of OpenCL

#include <vector>

#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor::opencl {

/// Of a GPU: those that are to be tried.
std::vector<MatrixUnit> units_to_try(cl_device_id id);

/// What holds a group and its local memory. Intel's drivers count vector engines, of which it has several.
cl_uint compute_units_of(cl_device_id id);

}  // namespace athanor::opencl
