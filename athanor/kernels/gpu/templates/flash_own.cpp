// Own rows of attention by matrix units: they are loaded once, before the loop over the other rows.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/flash_kernel.h"

namespace athanor::gpu {

/// Own rows go through local memory too if the unit's loads read its layout.
void FlashKernel::load_own() {
  if (u_.reads_own_directly()) {
    load_own_directly(own_1_, "own_1");
    if (own_2_) load_own_directly(*own_2_, "own_2");
    return;
  }
  const auto fill = [&](const FlashBlock& block, int64_t at) {
    block.declare(code_, "first");
    code_.open("");
    block.declare_held(code_);
    if (p_.computed)
      functions_ += block.compute(code_, *p_.computed, "first", p_.own());
    else
      block.load(code_, fmt::format("{} - first", p_.own()));
    block.store(code_, std::to_string(at));
    code_.close();
  };
  const auto read = [&](const FlashBlock& block, const char* name, int64_t at) {
    code_.line(fmt::format("{} {}[{}][{}];", u_.own_type(), name, point_.tiles,
                           block.features() / u_.plain_steps()));
    each_tile("i", point_.tiles, [&] {
      each_tile("f", block.features() / u_.plain_steps(), [&] {
        block.read_own(code_, fmt::format("{}[i][f]", name), std::to_string(at),
                       fmt::format("wave * {} + i * {}", point_.wave_rows(), u_.own_rows()), "f");
      });
    });
  };
  fill(own_1_, 0);
  if (kept_) fill(*kept_, kept_begin());
  if (own_in_turn()) {
    code_.line("LOCAL_BARRIER();");
    read(own_1_, "own_1", 0);
    code_.line("LOCAL_BARRIER();");
    fill(*own_2_, 0);
    code_.line("LOCAL_BARRIER();");
    read(*own_2_, "own_2", 0);
    return code_.line("LOCAL_BARRIER();");
  }
  if (own_2_) fill(*own_2_, own_1_.elements());
  if (by_four() && point_.own_local) code_.line("LOCAL_MATRICES_WRITTEN();");
  code_.line("LOCAL_BARRIER();");
  if (point_.own_local) return;
  read(own_1_, "own_1", 0);
  if (own_2_) read(*own_2_, "own_2", own_1_.elements());
  code_.line("LOCAL_BARRIER();");
}

void FlashKernel::load_own_directly(const FlashBlock& block, const char* name) {
  const std::string left = p_.own() % point_.rows() == 0 ? "" : fmt::format("{} - first", p_.own());
  const int64_t steps = block.features() / u_.plain_steps();
  block.declare_memory(code_, "first");
  code_.line(fmt::format("{} {}[{}][{}];", u_.own_type(), name, point_.tiles, steps));
  each_tile("i", point_.tiles, [&] {
    each_tile("f", steps, [&] {
      block.load_own(code_, fmt::format("{}[i][f]", name),
                     fmt::format("wave * {} + i * {}", point_.wave_rows(), u_.own_rows()), "f", left);
    });
  });
  // So that all are there before the loop, which would wait in every round for what it has begun to read.
  each_tile("i", point_.tiles, [&] {
    each_tile("f", steps, [&] { code_.line(fmt::format("HIDDEN_VECTOR({}[i][f]);", name)); });
  });
}

void FlashKernel::declare_rows() {
  if (sums_by_first()) zeros("sums_1", point_.tiles, other_1_.features() / u_.tile());
  if (sums_by_second()) zeros("sums_2", point_.tiles, other_2_->features() / u_.tile());
  if (by_keys()) return code_.line("f32 held_lse, held_delta;");
  if (softmax()) {
    code_.line(fmt::format("f32 largest[{0}][{1}], total[{0}][{1}];", point_.tiles, slots()));
    each_tile("i", point_.tiles, [&] {
      for (int s = 0; s < slots(); ++s)
        code_.line(fmt::format("largest[i][{0}] = {1}, total[i][{0}] = 0;", s, lowest()));
    });
    return;
  }
  code_.line(fmt::format("f32 own_lse[{0}][{1}], own_delta[{0}][{1}];", point_.tiles, slots()));
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) {
      code_.open("");
      code_.line(fmt::format("const i64 row = batch * {} + MIN({}, {});", p_.queries, own_row("i", s),
                             p_.queries - 1));
      code_.line(fmt::format("own_lse[i][{}] = LOAD({}, lse, {}){};", s, language_name(p_.lse.dtype),
                             p_.lse.index, times_f32(of_lse())));
      code_.line(fmt::format("own_delta[i][{}] = LOAD({}, delta, {});", s, language_name(p_.delta.dtype),
                             p_.delta.index));
      code_.close();
    }
  });
}

}  // namespace athanor::gpu
