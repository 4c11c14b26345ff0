// From tiles in local memory to the registers of units whose lanes hold all rows of A at some steps along k:
// the lanes of a wave read a row together.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_operand.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

// A fragment's first row is a multiple of the rows after which the swizzle repeats, so the permutation of
// each row is known.
void TileOperand::declare_steps(Code& code, const std::string& first) const {
  const std::string n = source_.name;
  const int64_t lanes = 16 / step_bytes();  // that share a chunk
  code.line(fmt::format("const int {0}_row = {1}, {0}_chunk = lane / {2};", n, first, lanes));
  code.line(fmt::format("const int {0}_at = {1} + lane % {2} * {3};", n, base(n + "_row"), lanes,
                        step_bytes() / size_));
}

void TileOperand::read_steps(Code& code, int64_t set, Range some, const std::string& step,
                             const std::string& at) const {
  const std::string n = source_.name, start = plus("tiles", at) + " + " + n + "_at";
  unrolled(code, "i", some.first, some.end, [&](const std::string& i) {
    for (int64_t row = 0; row < unit_.m; ++row) {
      std::string chunk = plus(times(step, fragment_k() / chunk_), n + "_chunk");
      const int64_t permuted = row / rows_together() % permutations();
      if (permuted != 0) chunk = fmt::format("({}) ^ {}", chunk, permuted);
      const std::string first =
          plus(plus(start, row * pitch()), times(i, unit_.m * pitch() + padding(unit_.m)));
      code.line(fmt::format("{}_part[{}][{}][{}] = *(LOCAL const {} *)({} + ({}) * {});", n, set, i, row,
                            step_bytes() == 2 ? "u16" : "u32", first, chunk, chunk_));
    }
  });
}

}  // namespace athanor::gpu
