// The loop along k for units that read A and B in local memory and multiply while waves go on.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// Multiplies the stage at element `at` of local memory, beside what follows.
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
  const int64_t units_m = wave_m() / unit_.m;
  code_.line("MULTIPLY_WAIT(0);");
  // The compiler does not know that sums come only now.
  code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", units_m));
  code_.line(fmt::format("UNROLL for (int e = 0; e < {}; ++e) HIDDEN_F32(sums[i][0][e]);", unit_.c.elements));
  code_.close();
}

// Of the stages, one is being multiplied, and one was before: other waves of the group may still be at it
// when a wave's own multiplications are over, so it is filled again only after the next barrier. The rest are
// on their way.
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

// The same through registers, for what is turned on its way: a stage is read from memory while the one before
// is multiplied, and written meanwhile. Of three stages one is multiplied, one may still be by other waves,
// and one is written.
void TileKernel::loop_of_written_matrices() {
  const int64_t stage = a_.elements() + b_.elements(), all = stage * point_.stages;
  a_.declare_held(code_);
  b_.declare_held(code_);
  const auto store = [&](const std::string& at) {
    a_.store(code_, at);
    b_.store(code_, plus(at, a_.elements()));
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
