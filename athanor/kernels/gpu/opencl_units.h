// The matrix units that an OpenCL device may have. No driver says which it has, so they are tried
// (backends/gpu/unit_trials.h).
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor {

/// What a driver says that narrows down the units.
struct OpenClHints {
  /// The smallest sub-group that a kernel may require: Intel's units have as many lanes. 0: kernels may
  /// require none.
  int least_wave = 0;
  bool amd = false, nvidia = false;  // it has extensions of these vendors
  bool dots = false;                 // and cl_khr_integer_dot_product
};
/// The units, best first for each type, then what lanes compute in their place.
std::vector<MatrixUnit> opencl_units(const OpenClHints& hints);

/// multiply_add_text() and compile_options_for() for such a unit.
std::string opencl_multiply_add_text(const MatrixUnit& unit);
std::string_view opencl_compile_options(const MatrixUnit& unit);

}  // namespace athanor
