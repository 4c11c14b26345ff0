// The AMD chips for which an installed torch has kernels.
#pragma once
#include <string>
#include <string_view>

#include "athanor/device/chip_order.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/facts/python.h"

namespace athanor::doctor {

struct TorchKernels {
  Chips targets;
  bool some = true;    // it may have more
  std::string source;  // the source of this

  Compatibility::Has has(std::string_view gfx) const;
};

/// By the packages in which AMD's own builds bring kernels, if the environment has any; otherwise by what is
/// known about that version of torch for that version of ROCm.
TorchKernels torch_kernels(const TorchBuild& torch);

/// ROCm that pip has installed (rocm-sdk-core); nullptr for none.
const Distribution* pip_rocm(const PythonEnvironment& environment);

}  // namespace athanor::doctor
