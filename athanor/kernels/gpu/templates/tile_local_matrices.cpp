// The loop along k for units that read A and B in local memory and multiply while the waves continue.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// Multiplies the stage at element `at` of local memory while `meanwhile` runs. Without it, nothing waits for
/// the unit until await_local_matrices().
void TileKernel::multiply_local_matrices(const std::string& at, const std::function<void()>& meanwhile) {
  const int64_t units_m = wave_m() / unit_.m;
  for (int64_t i = 0; i < units_m; ++i)
    code_.line(fmt::format("const u64 a_matrix{} = {};", i,
                           a_.local_matrix(at, fmt::format("wave_m * {} + {}", wave_m(), i * unit_.m))));
  code_.line(fmt::format("const u64 b_matrix = {};",
                         b_.local_matrix(plus(at, a_.elements()), fmt::format("wave_n * {}", wave_n()))));
  if (unit_.promotes_after > 0) return promote_local_matrices(meanwhile);
  code_.line("MULTIPLY_BEGIN();");
  for (int64_t f = 0; f < point_.k / unit_.k; ++f)
    for (int64_t i = 0; i < units_m; ++i)
      code_.line(local_multiplication("MULTIPLY_ADD", fmt::format("sums[{}][0]", i), i, 0, f));
  code_.line("MULTIPLY_END();");
  if (!meanwhile) return;
  meanwhile();
  code_.line("MULTIPLY_WAIT(1);");
}

/// By a unit of row `i` and column `j` of them, step `f`.
std::string TileKernel::local_multiplication(const char* word, const std::string& sums, int64_t i, int64_t j,
                                             int64_t f) const {
  return fmt::format("{}<{}, {}>({}, {}, {});", word, a_.along_k() ? 0 : 1, b_.along_k() ? 0 : 1, sums,
                     plus(fmt::format("a_matrix{}", i), f * a_.local_step()),
                     plus("b_matrix", j * b_.local_rows(unit_.n) + f * b_.local_step()));
}

/// One unit after another multiplies the stage from 0 on, and lanes add its sums to theirs. Other waves
/// multiply meanwhile.
void TileKernel::promote_local_matrices(const std::function<void()>& meanwhile) {
  for (int64_t i = 0; i < wave_m() / unit_.m; ++i)
    for (int64_t j = 0; j < wave_n() / unit_.n; ++j) {
      code_.open("");
      code_.line(fmt::format("{}x{} part;", sum_type(unit_), unit_.c.elements));
      code_.line("MULTIPLY_BEGIN();");
      for (int64_t f = 0; f < point_.k / unit_.k; ++f)
        code_.line(local_multiplication(f == 0 ? "MULTIPLY" : "MULTIPLY_ADD", "part", i, j, f));
      code_.line("MULTIPLY_END();");
      if (meanwhile && i + j == 0) meanwhile();
      code_.line("MULTIPLY_WAIT(0);");
      hide("part");
      code_.line(fmt::format("UNROLL for (int e = 0; e < {0}; ++e) sums[{1}][{2}][e] += part[e];",
                             unit_.c.elements, i, j));
      code_.close();
    }
}

/// The compiler does not know that a unit's sums are complete only now.
void TileKernel::hide(const std::string& sums) {
  code_.line(
      fmt::format("UNROLL for (int e = 0; e < {}; ++e) {}({}[e]);", unit_.c.elements, hidden_sum(), sums));
}

void TileKernel::await_local_matrices() {
  if (unit_.promotes_after > 0) return;
  code_.line("MULTIPLY_WAIT(0);");
  each_unit([&](const std::string& sums) { hide(sums); });
}

// One stage is being multiplied. Other waves of the group may still multiply the one before it when a wave's
// own multiplications are over, so it is filled again only after the next barrier; if lanes add a unit's sums
// to theirs, it is over before this barrier. The rest are being filled.
int64_t TileKernel::stages_on_the_way() const { return point_.stages - (unit_.promotes_after > 0 ? 1 : 2); }

void TileKernel::loop_of_local_matrices() {
  const int64_t stage = a_.elements() + b_.elements(), all = stage * point_.stages;
  const int64_t on_the_way = stages_on_the_way();
  code_.line("int k_next = k_begin;");
  const auto fetch_next = [&](const std::string& at) {
    code_.open("if (k_next < k_end)");
    fetch(at);
    code_.close();
    code_.line("ASYNC_COMMIT();");
    code_.line(fmt::format("k_next += {};", point_.k));
  };
  for (int64_t s = 0; s < on_the_way; ++s) fetch_next(std::to_string(s * stage));
  code_.line(fmt::format("int read_at = 0, write_at = {};", on_the_way * stage));
  code_.open(fmt::format("for (int k = k_begin; k < k_end; k += {})", point_.k));
  code_.line(fmt::format("ASYNC_WAIT({});", on_the_way - 1));
  code_.line("LOCAL_MATRICES_WRITTEN();");
  code_.line("LOCAL_BARRIER();");
  multiply_local_matrices("read_at", [&] { fetch_next("write_at"); });
  for (const char* at : {"read_at", "write_at"})
    code_.line(fmt::format("{0} = {0} == {1} ? 0 : {0} + {2};", at, all - stage, stage));
  code_.close();
  await_local_matrices();
}

// The same through registers, for matrices that are turned on their way: while a stage is multiplied, the
// next one is read from memory and written. Of three stages, one is being multiplied, one may still be
// multiplied by other waves, and one is being written.
void TileKernel::loop_of_written_matrices() {
  const int64_t stage = a_.elements() + b_.elements(), all = stage * point_.stages;
  a_.declare_held(code_);
  b_.declare_held(code_);
  const auto store = [&](const std::string& at) {
    a_.store(code_, at, "m0");
    b_.store(code_, plus(at, a_.elements()), "n0");
  };
  const auto publish = [&] {
    code_.line("LOCAL_MATRICES_WRITTEN();");
    code_.line("LOCAL_BARRIER();");
  };
  code_.line(fmt::format("int k_next = k_begin, read_at = 0, write_at = {};", stage));
  fetch("");
  store("0");
  code_.open(fmt::format("for (k_next += {0}; k_next < k_end; k_next += {0})", point_.k));
  publish();
  fetch("");
  multiply_local_matrices("read_at", [] {});
  store("write_at");
  for (const char* at : {"read_at", "write_at"})
    code_.line(fmt::format("{0} = {0} == {1} ? 0 : {0} + {2};", at, all - stage, stage));
  code_.close();
  publish();
  multiply_local_matrices("read_at", {});
  await_local_matrices();
}

}  // namespace athanor::gpu
