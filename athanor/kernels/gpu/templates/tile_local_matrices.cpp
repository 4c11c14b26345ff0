// The loop along k for units that read A and B in local memory and multiply while the waves continue.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// Starts to multiply the stage at element `at` of local memory. The code after it runs meanwhile.
void TileKernel::multiply_local_matrices(const std::string& at) {
  const int64_t units_m = wave_m() / unit_.m;
  for (int64_t i = 0; i < units_m; ++i)
    code_.line(fmt::format("const u64 a_matrix{} = {};", i,
                           a_.local_matrix(at, fmt::format("wave_m * {} + {}", wave_m(), i * unit_.m))));
  code_.line(fmt::format("const u64 b_matrix = {};",
                         b_.local_matrix(plus(at, a_.elements()), fmt::format("wave_n * {}", wave_n()))));
  code_.line("MULTIPLY_BEGIN();");
  for (int64_t f = 0; f < point_.k / unit_.k; ++f)
    for (int64_t i = 0; i < units_m; ++i)
      code_.line(fmt::format("MULTIPLY_ADD<{}, {}>(sums[{}][0], {}, {});", a_.along_k() ? 0 : 1,
                             b_.along_k() ? 0 : 1, i, plus(fmt::format("a_matrix{}", i), f * a_.local_step()),
                             plus("b_matrix", f * b_.local_step())));
  code_.line("MULTIPLY_END();");
}

void TileKernel::await_local_matrices() {
  code_.line("MULTIPLY_WAIT(0);");
  // The compiler does not know that the sums are complete only now.
  each_unit([&](const std::string& sums) {
    code_.line(
        fmt::format("UNROLL for (int e = 0; e < {}; ++e) {}({}[e]);", unit_.c.elements, hidden_sum(), sums));
  });
}

// One stage is being multiplied. Other waves of the group may still multiply the one before it when a wave's
// own multiplications are over, so it is filled again only after the next barrier. The rest are being filled.
void TileKernel::loop_of_local_matrices() {
  const int64_t stage = a_.elements() + b_.elements(), all = stage * point_.stages;
  const int64_t on_the_way = point_.stages - 2;
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
  multiply_local_matrices("read_at");
  fetch_next("write_at");
  code_.line("MULTIPLY_WAIT(1);");
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
  multiply_local_matrices("read_at");
  code_.line("MULTIPLY_WAIT(1);");
  store("write_at");
  for (const char* at : {"read_at", "write_at"})
    code_.line(fmt::format("{0} = {0} == {1} ? 0 : {0} + {2};", at, all - stage, stage));
  code_.close();
  publish();
  multiply_local_matrices("read_at");
  await_local_matrices();
}

}  // namespace athanor::gpu
