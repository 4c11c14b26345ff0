#include "athanor/kernels/gpu/grain.h"

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {

int64_t tiles_of_group(const GpuTraits& traits, int64_t tiles, int64_t work, int64_t least) {
  return std::clamp<int64_t>(ceil_div(least, work), 1,
                             std::max<int64_t>(tiles / (4L * traits.compute_units), 1));
}

}  // namespace athanor
