// The result's sums by Intel's units. If the sums so far shrank before the units add to them, Intel's
// compiler would hold them twice, before and after that: with 128 features it spilled 106 of 256 registers.
// So a block's sums begin at zero, a few features at a time, and an FMA both shrinks the sums so far and
// adds.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/flash_kernel.h"

namespace athanor::gpu {

void FlashKernel::sum_anew(const FlashBlock& other, const std::string& at) {
  const int64_t steps = point_.block / u_.turned_steps();
  code_.line(fmt::format("{} p[{}][{}];", u_.weights_type(), steps, point_.tiles));
  each_tile("t", steps, [&] { each_tile("i", point_.tiles, [&] { pack_steps("scores", "t", "p[t][i]"); }); });
  each_tile("f", other.features() / u_.read(), [&] {
    fence(true);
    zeros("added", 1, point_.tiles);
    each_tile("t", steps, [&] {
      code_.line(u_.turned_type() + " part;");
      other.read_turned(code_, "part", at, "t", "f");
      each_tile("i", point_.tiles, [&] { code_.line("MULTIPLY_ADD(added[0][i], part, p[t][i]);"); });
    });
    each_tile("i", point_.tiles, [&] {
      for (int e = 0; e < elements(); ++e)
        code_.line(
            fmt::format("sums_2[i][f][{0}] = FMA(sums_2[i][f][{0}], shrink[i], added[0][i][{0}]);", e));
    });
  });
}

}  // namespace athanor::gpu
