#include "athanor/backends/cpu/onednn/candidates.h"

#include <algorithm>

#include "athanor/backends/cpu/onednn/onednn.h"
#include "athanor/backends/cpu/openmp.h"
#include "athanor/base/threads.h"

namespace athanor::cpu {

bool onednn_takes(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  const auto fits = [&](const OperandDesc& operand) {
    return operand.dtype == dtype && operand.shape.size() > 0;
  };
  if (!onednn_supports(dtype) || !fits(request.output()) || !std::ranges::all_of(request.inputs, fits))
    return false;
  use_openmp_threads(cpu_threads());  // primitives are made for a number of threads
  return true;
}

}  // namespace athanor::cpu
