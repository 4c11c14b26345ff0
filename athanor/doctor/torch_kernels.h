// Which of AMD's chips an installed torch has kernels for.
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
  std::string source;  // what said so

  Compatibility::Has has(std::string_view gfx) const;
};

/// By the packages that AMD's own builds bring kernels in, where the environment has such, else by what is
/// known of that version of torch for that version of ROCm.
TorchKernels torch_kernels(const TorchBuild& torch);

/// ROCm that pip has installed (rocm-sdk-core); nullptr for none.
const Distribution* pip_rocm(const PythonEnvironment& environment);

}  // namespace athanor::doctor
