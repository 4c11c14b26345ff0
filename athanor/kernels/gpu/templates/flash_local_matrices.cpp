// Attention by units of four waves (wgmma), which read other rows, and own ones if they are not in
// registers, in local memory while the waves continue. Scores and weights are in registers as for mma.sync.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/flash_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

// ---- The blocks ----

std::string FlashBlock::permuted_place(const std::string& row, const std::string& chunk) const {
  std::string place = fmt::format("{0} * 64 + ({1} % 8 ^ {0} % 8) * 8", row, chunk);
  if (panels() > 1) place += fmt::format(" + {} / 8 * {}", chunk, panel());
  return place;
}

// Eight rows are 1024 bytes. Along features, the unit looks at one panel only.
std::string FlashBlock::local_matrix(const std::string& at, const std::string& row, bool by_rows) const {
  const std::string from = plus("tiles", at);
  return fmt::format("LOCAL_MATRIX({}{}, {}, 1024)", from, row == "0" ? "" : " + " + row + " * 64",
                     by_rows ? panel() * unit_.size() : 16);
}

int64_t FlashBlock::local_step(int64_t n, bool by_rows) const {
  const int64_t k = unit_.four->k;
  if (by_rows) return n * k * 64 / unit_.chunk();
  return n * k / 64 * panel() / unit_.chunk() + n * k % 64 / unit_.chunk();
}

// ---- The kernel ----

std::string FlashKernel::multiply(const MultiplyRows& word, const std::string& c, const std::string& a,
                                  const std::string& b) {
  words_.insert(word);
  return fmt::format("{}({}[0], {}, {});", word.name(), c, a, b);
}

/// The compiler does not know when the unit reads and writes registers: it must not move what it computes
/// of them across a wait or the begin of multiplications.
void FlashKernel::hide(const std::string& fragments, int64_t columns) {
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", columns / u_.tile()));
  for (int e = 0; e < elements(); ++e) code_.line(fmt::format("HIDDEN_F32({}[0][j][{}]);", fragments, e));
  code_.close();
}

void FlashKernel::await(int64_t still_running) {
  code_.line(fmt::format("MULTIPLY_WAIT({});", still_running));
}

/// result = own rows by other rows, along features. Declares it; it is there after await().
void FlashKernel::start_product(const std::string& result, const FlashBlock& own, const std::string& held,
                                int64_t own_at, const FlashBlock& other, const std::string& at) {
  code_.line(fmt::format("{} {}[1][{}];", c_type(), result, score_tiles()));
  code_.open("");
  code_.line(fmt::format("const u64 other_rows = {};", other.local_matrix(at, "0", false)));
  if (point_.own_local)
    code_.line(fmt::format("const u64 own_rows = {};",
                           own.local_matrix(std::to_string(own_at), "wave / 4 * 64", false)));
  code_.line("MULTIPLY_BEGIN();");
  for (int64_t f = 0; f < own.features() / u_.four->k; ++f) {
    const std::string mine =
        point_.own_local
            ? plus("own_rows", own.local_step(f, false))
            : fmt::format("{0}[0][{1}][0], {0}[0][{1}][1], {0}[0][{1}][2], {0}[0][{1}][3]", held, f);
    code_.line(multiply({.columns = static_cast<int>(point_.block), .add = f > 0, .local = point_.own_local},
                        result, mine, plus("other_rows", other.local_step(f, false))));
  }
  code_.line("MULTIPLY_END();");
  code_.close();
}

/// sums += weights by other rows. The weights stay in registers of their own until await().
void FlashKernel::start_sum(const std::string& sums, const std::string& weights, const FlashBlock& other,
                            const std::string& at) {
  const int64_t steps = point_.block / u_.four->k;
  const std::string packed = "packed_" + weights;
  code_.line(fmt::format("u32x4 {}[{}];", packed, steps));
  each_tile("t", steps, [&] {
    code_.line("u32x4 p[1];");
    code_.line("const int i = 0;");
    pack(weights, "t");
    for (int r = 0; r < 4; ++r) {
      code_.line(fmt::format("HIDDEN_LANE(p[0][{}]);", r));
      code_.line(fmt::format("{0}[t][{1}] = p[0][{1}];", packed, r));
    }
  });
  hide(sums, other.features());
  code_.open("");
  code_.line(fmt::format("const u64 other_rows = {};", other.local_matrix(at, "0", true)));
  code_.line("MULTIPLY_BEGIN();");
  for (int64_t t = 0; t < steps; ++t)
    code_.line(multiply({.columns = static_cast<int>(other.features()), .add = true, .turned = true}, sums,
                        fmt::format("{0}[{1}][0], {0}[{1}][1], {0}[{1}][2], {0}[{1}][3]", packed, t),
                        plus("other_rows", other.local_step(t, true))));
  code_.line("MULTIPLY_END();");
  code_.close();
}

/// Ptxas (12.4 to 13.0) forgets that the unit reads own rows again in the next round, and gives their
/// registers to other values. A use behind the loop keeps them. It never runs, but depends on a result, so
/// that no compiler knows that.
void FlashKernel::keep_own() {
  if (point_.own_local) return;
  const char* const result = softmax()         ? "largest[0][0]"
                             : sums_by_first() ? "sums_1[0][0][0]"
                                               : "sums_2[0][0][0]";
  code_.open(fmt::format("if (BITS_OF_F32({}) == 0x7fedcba9u)", result));
  int64_t to = 0;  // each has a place of its own, or the first would not be used
  const auto use = [&](const FlashBlock& own, const char* held) {
    for (int64_t f = 0; f < own.features() / u_.plain_steps(); ++f, to += u_.chunk())
      code_.line(fmt::format("WRITE_REGISTERS(4, tiles + {}, {}[0][{}]);", to, held, f));
  };
  use(own_1_, "own_1");
  if (own_2_) use(*own_2_, "own_2");
  code_.close();
}

/// Starts what needs no other product.
void FlashKernel::start_block(const std::string& at) {
  start_product("scores", own_1_, "own_1", 0, other_1_, at);
  if (p_.has_second())
    start_product("products", *own_2_, "own_2", own_1_.elements(), *other_2_, plus(at, other_1_.elements()));
}

/// The rest of a block. While a product runs, the waves compute with the one before it.
void FlashKernel::compute_by_four(const std::string& at, const std::string& numbers) {
  await(p_.has_second() ? 1 : 0);
  hide("scores", point_.block);
  limit();
  if (softmax())
    weigh_by_softmax();
  else
    weigh_by_lse(numbers);
  if (sums_by_second()) start_sum("sums_2", "scores", *other_2_, plus(at, other_1_.elements()));
  if (p_.has_second()) {
    await(sums_by_second() ? 1 : 0);
    hide("products", point_.block);
    score_gradients(numbers);
    start_sum("sums_1", "products", other_1_, at);
  }
  if (!sums_by_second() && !p_.has_second()) return;
  await(0);
  if (sums_by_first()) hide("sums_1", other_1_.features());
  if (sums_by_second()) hide("sums_2", other_2_->features());
}

}  // namespace athanor::gpu
