// What attention's kernels compute of a block: scores, weights, and sums of rows by weights.
#include <fmt/format.h>

#include <numbers>

#include "athanor/kernels/gpu/templates/flash_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

std::string number(double value) { return fmt::format("{:.9e}f", value); }

/// f(f(a, b), f(c, d)) for a power of two of values: in a tree, few operations wait for each other. `apart`:
/// f(f(a, c), f(b, d)), so that neighbours take part in the same operation of vectors.
std::string tree(std::vector<std::string> values, bool apart,
                 const std::function<std::string(std::string, std::string)>& f) {
  while (values.size() > 1) {
    std::vector<std::string> half;
    const size_t count = values.size() / 2;
    for (size_t i = 0; i < count; ++i)
      half.push_back(apart ? f(values[i], values[i + count]) : f(values[2 * i], values[2 * i + 1]));
    values = std::move(half);
  }
  return values.front();
}

std::string larger(const std::string& a, const std::string& b) { return fmt::format("LARGER({}, {})", a, b); }
std::string added(const std::string& a, const std::string& b) { return fmt::format("({} + {})", a, b); }

}  // namespace

std::string FlashKernel::factor() const {
  return number(scaled_first() ? 1 : p_.scale * std::numbers::log2e);
}

std::string FlashKernel::power(const std::string& score, const std::string& base) const {
  if (!masked()) return fmt::format("EXP2(FMA({}, {}, -{}))", score, factor(), base);
  return fmt::format("EXP2(({} - {}) * {})", score, base, number(std::numbers::log2e));
}

std::string FlashKernel::times_f32(double value) { return value == 1 ? "" : " * " + number(value); }

double FlashKernel::of_lse() const { return masked() ? 1 : std::numbers::log2e; }

void FlashKernel::fence(bool wanted) {
  if (wanted) code_.line("SCHEDULE_FENCE();");
}

/// result += own rows by other rows, along features.
void FlashKernel::product(const std::string& result, const FlashBlock& own, const std::string& held,
                          int64_t own_at, const FlashBlock& other, const std::string& at) {
  if (reads_ahead()) return product_ahead(result, own, held, other, at);
  each_tile("f", own.features() / u_.plain_steps(), [&] {
    fence(!tight());
    if (point_.own_local) {
      code_.line(fmt::format("{} {}[{}][1];", u_.own_type(), held, point_.tiles));
      each_tile("i", point_.tiles, [&] {
        own.read_own(code_, held + "[i][0]", std::to_string(own_at),
                     fmt::format("wave * {} + i * {}", point_.wave_rows(), u_.own_rows()), "f");
      });
    }
    const std::string mine = fmt::format("{}[i][{}]", held, point_.own_local ? "0" : "f");
    each_tile("j", point_.block / u_.read(), [&] {
      fence(tight());
      code_.line(u_.plain_type() + " part;");
      other.read_plain(code_, "part", at, "j", "f");
      each_tile("i", point_.tiles, [&] {
        for (int64_t u = 0; u < u_.plain_units(); ++u) {
          if (!u_.mma()) {
            code_.line(fmt::format("MULTIPLY_ADD({}[i][j], {}, {});", result,
                                   FlashUnit::part_of("part", u_.plain_units(), u),
                                   FlashUnit::part_of(mine, u_.plain_units(), u)));
            continue;
          }
          for (int64_t h = 0; h < 2; ++h) {
            std::string arguments;
            for (int64_t r = 0; r < u_.unit->a_registers(); ++r)
              arguments += fmt::format(", {}[{}]", mine, u * u_.unit->a_registers() + r);
            for (int64_t r = 0; r < u_.unit->b_registers(); ++r)
              arguments += fmt::format(", part[{}]", 2 * h + u * u_.unit->b_registers() + r);
            code_.line(fmt::format("MULTIPLY_ADD({}[i][2 * j + {}]{});", result, h, arguments));
          }
        }
      });
    });
  });
}

/// Sets scores to -infinity if their row does not exist, or if the query does not see it. Applies scale and
/// mask.
void FlashKernel::limit() {
  const int64_t shift = p_.keys - p_.queries;
  if (scaled_first() && !masked() && p_.scale <= 0) scale_scores();
  std::string when;
  const auto either = [&](const std::string& condition) { when += (when.empty() ? "" : " || ") + condition; };
  if (masked()) either("1");
  if (p_.other() % point_.block != 0) either(fmt::format("next > {}", p_.other()));
  if (p_.causal && !by_keys()) either(fmt::format("next > {}", plus("first + 1", std::to_string(shift))));
  if (p_.causal && by_keys())
    either(fmt::format("{} > begin", plus("first", std::to_string(point_.rows() - 1 - shift))));
  // The gradient by queries sums along own rows.
  const bool own_end = of_all() && p_.own() % point_.rows() != 0;
  if (own_end) either(fmt::format("first + {} > {}", point_.rows(), p_.own()));
  if (when.empty()) return;
  code_.open(fmt::format("if ({})", when));
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) code_.line(fmt::format("const int own_{} = {};", s, own_row("i", s)));
    each_tile("j", score_tiles(), [&] {
      for (int e = 0; e < elements(); ++e) {
        const std::string own = fmt::format("own_{}", slot_of(e)),
                          other = plus(fmt::format("begin + other_lane + j * {}", u_.tile()), other_of(e));
        const std::string query = by_keys() ? "other" : own, key = by_keys() ? own : "other";
        std::string seen = fmt::format("other < {}", p_.other());
        if (p_.causal) seen += fmt::format(" && {} <= {}", key, plus(query, std::to_string(shift)));
        if (masked() || own_end) seen += fmt::format(" && {} < {}", own, p_.own());
        std::string score = fmt::format("scores[i][j][{}]", e);
        if (masked())
          score = fmt::format("{} * {} + LOAD({}, mask, {} + {} * (i64){} + {} * (i64){})", score,
                              number(p_.scale), language_name(p_.dtype), p_.mask.start, query, p_.mask.row,
                              key, p_.mask.feature);
        code_.open("");
        code_.line(fmt::format("const int other = {};", other));
        code_.line(fmt::format("scores[i][j][{}] = {} ? {} : {};", e, seen, score, lowest()));
        code_.close();
      }
    });
  });
  code_.close();
}

void FlashKernel::scale_scores() {
  const std::string factor = number(p_.scale * std::numbers::log2e);
  each_tile("i", point_.tiles, [&] {
    each_tile("j", score_tiles(), [&] {
      if (packs()) return code_.line(fmt::format("scores[i][j] *= {};", factor));
      for (int e = 0; e < elements(); ++e) code_.line(fmt::format("scores[i][j][{}] *= {};", e, factor));
    });
  });
}

/// Scores become weights relative to the largest score so far; the sums so far shrink accordingly.
void FlashKernel::weigh_by_softmax() {
  // Before a comparison compilers add an instruction for signalling NaNs, unless a product comes before it.
  if (packs() && !masked() && p_.scale > 0) scale_scores();
  const auto of_slot = [&](int slot, const auto& f) {
    std::vector<std::string> values;
    for (int e = 0; e < elements(); ++e)
      if (slot_of(e) == slot) values.push_back(fmt::format("scores[i][j][{}]", e));
    return tree(values, packs(), f);
  };
  if (sums_anew()) code_.line(fmt::format("f32 shrink[{}];", point_.tiles));
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) code_.line(fmt::format("f32 now_{0} = largest[i][{0}];", s));
    each_tile("j", score_tiles(), [&] {
      for (int s = 0; s < slots(); ++s)
        code_.line(fmt::format("now_{0} = LARGER(now_{0}, {1});", s, of_slot(s, larger)));
    });
    for (size_t bit = 0; (1 << bit) < u_.unit->wave; ++bit)
      if (u_.unit->c.lane[bit].*u_.other() != 0)
        for (int s = 0; s < slots(); ++s)
          code_.line(
              fmt::format("now_{0} = LARGER(now_{0}, F32_OF_BITS(SHUFFLE_XOR(BITS_OF_F32(now_{0}), {1})));",
                          s, 1 << bit));
    for (int s = 0; s < slots(); ++s) {
      // If nothing was seen yet, avoids infinity minus infinity.
      code_.line(fmt::format("const f32 base_{0} = now_{0} == {1} ? 0.0f : now_{0}{2};", s, lowest(),
                             times_f32(scaled_first() ? 1 : p_.scale * std::numbers::log2e)));
      code_.line(fmt::format("const f32 shrink_{} = {};", s,
                             power(fmt::format("largest[i][{}]", s), fmt::format("base_{}", s))));
      code_.line(fmt::format("largest[i][{0}] = now_{0}, total[i][{0}] *= shrink_{0};", s));
    }
    each_tile("j", score_tiles(), [&] {
      if (packs()) {
        code_.line(fmt::format("scores[i][j] = (scores[i][j] - base_0){};",
                               masked() ? times_f32(std::numbers::log2e) : ""));
        exponentiate();
      }
      for (int e = 0; e < elements() && !packs(); ++e)
        code_.line(
            fmt::format("scores[i][j][{}] = {};", e,
                        power(fmt::format("scores[i][j][{}]", e), fmt::format("base_{}", slot_of(e)))));
      for (int s = 0; s < slots(); ++s) code_.line(fmt::format("total[i][{}] += {};", s, of_slot(s, added)));
    });
    if (sums_anew()) return code_.line("shrink[i] = shrink_0;");
    if (sums_by_second())
      each_tile("f", other_2_->features() / u_.tile(), [&] {
        if (packs()) return code_.line("sums_2[i][f] *= shrink_0;");
        for (int e = 0; e < elements(); ++e)
          code_.line(fmt::format("sums_2[i][f][{}] *= shrink_{};", e, slot_of(e)));
      });
  });
}

void FlashKernel::exponentiate() {
  for (int e = 0; e < elements(); ++e)
    code_.line(fmt::format("scores[i][j][{0}] = EXP2(scores[i][j][{0}]);", e));
}

void FlashKernel::weigh_by_lse(const std::string& numbers) {
  each_tile("i", point_.tiles, [&] {
    each_tile("j", score_tiles(), [&] {
      if (packs() && !by_keys()) {
        code_.line(
            masked() ? fmt::format("scores[i][j] = (scores[i][j] - own_lse[i][0]) * {};",
                                   number(std::numbers::log2e))
                     : fmt::format("scores[i][j] = VFMA({0}, scores[i][j], {1}, (f32x{0})(-own_lse[i][0]));",
                                   elements(), factor()));
        return exponentiate();
      }
      for (int e = 0; e < elements(); ++e) {
        const std::string lse =
            by_keys() ? fmt::format("numbers[{} + other_lane + j * {} + {}]", numbers, u_.tile(), other_of(e))
                      : fmt::format("own_lse[i][{}]", slot_of(e));
        code_.line(fmt::format("scores[i][j][{}] = {};", e, power(fmt::format("scores[i][j][{}]", e), lse)));
      }
    });
  });
}

/// The scores' gradients without the scale, by which the sums are multiplied at the end.
void FlashKernel::score_gradients(const std::string& numbers) {
  each_tile("i", point_.tiles, [&] {
    each_tile("j", score_tiles(), [&] {
      for (int e = 0; e < elements(); ++e) {
        const std::string delta = by_keys() ? fmt::format("numbers[{} + {} + other_lane + j * {} + {}]",
                                                          numbers, point_.items(), u_.tile(), other_of(e))
                                            : fmt::format("own_delta[i][{}]", slot_of(e));
        code_.line(
            fmt::format("products[i][j][{0}] = scores[i][j][{0}] * (products[i][j][{0}] - {1});", e, delta));
      }
    });
  });
}

/// Of units whose lanes have all rows of two tiles (Intel).
void FlashKernel::pack_steps(const std::string& weights, const std::string& step, const std::string& to) {
  for (int r = 0; r < 8; ++r) {
    const std::string tile = fmt::format("{}[i][2 * {} + {}]", weights, step, r / 4);
    code_.line(fmt::format("{0}[{1}] = NEAR_PACKED({2}, {3}[{4}], {3}[{5}]);", to, r, language_name(p_.dtype),
                           tile, r % 4 * 2, r % 4 * 2 + 1));
  }
}

/// The weights of a step along other rows, as the unit takes them: u32 p[i][register].
void FlashKernel::pack(const std::string& weights, const std::string& step) {
  const auto pair = [&](const std::string& tile, int64_t e) {
    return fmt::format("NEAR_PACKED({}, {}{}, {}{})", language_name(p_.dtype), tile, fmt::format("[{}]", e),
                       tile, fmt::format("[{}]", e + 1));
  };
  if (u_.mfma_f32()) {
    // A lane has the elements of its own C, of which there are four in a step.
    const int64_t steps = u_.unit->m / u_.turned_steps();  // of a tile
    for (int r = 0; r < 4; ++r)
      code_.line(fmt::format("p[i][{0}] = BITS_OF_F32({1}[i][{2} / {3}][{2} % {3} * 4 + {0}]);", r, weights,
                             step, steps));
    return;
  }
  if (u_.size() == 4) {
    for (int r = 0; r < 4; ++r)
      code_.line(fmt::format("ROUND_TO_TF32(p[i][{}], {}[i][{}][{}]);", r, weights, step, r % 2 * 2 + r / 2));
    return;
  }
  if (u_.mma()) {
    for (int h = 0; h < 2; ++h)
      for (int s = 0; s < 2; ++s)
        code_.line(fmt::format("p[i][{}] = {};", 2 * h + s,
                               pair(fmt::format("{}[i][2 * {} + {}]", weights, step, h), 2 * s)));
    return;
  }
  if (u_.by_steps()) return pack_steps(weights, step, "p[i]");
  if (u_.doubled()) {
    // A lane has every second row of a tile, and the lane in the other half of the wave the others.
    code_.line(fmt::format("const bool odd = lane / {} == 1;", u_.unit->m));
    for (int r = 0; r < 4; ++r) {
      code_.open("");
      code_.line(fmt::format("const u32 mine = {};", pair(fmt::format("{}[i][{}]", weights, step), 2 * r)));
      code_.line(fmt::format("const u32 its = SHUFFLE_XOR(mine, {});", u_.unit->m));
      code_.line("const u32 a = odd ? its : mine, b = odd ? mine : its;");
      code_.line(fmt::format("p[i][{}] = LOW_HALVES(a, b), p[i][{}] = HIGH_HALVES(a, b);", 2 * r, 2 * r + 1));
      code_.close();
    }
    return;
  }
  // For a tile of 32 rows, each lane has a run of 4 in a step.
  const int64_t registers = u_.unit->m == 32 ? 2 : 4;
  for (int64_t r = 0; r < registers; ++r) {
    const std::string tile = u_.unit->m == 32 ? fmt::format("{}[i][{} / 4]", weights, step)
                                              : fmt::format("{}[i][{}]", weights, step);
    if (u_.unit->m == 32)
      code_.line(fmt::format("p[i][{0}] = NEAR_PACKED({1}, {2}[{3} % 4 * 4 + {4}], {2}[{3} % 4 * 4 + {5}]);",
                             r, language_name(p_.dtype), tile, step, 2 * r, 2 * r + 1));
    else
      code_.line(fmt::format("p[i][{}] = {};", r, pair(tile, 2 * r)));
  }
}

void FlashKernel::sum(const Sum& what) {
  each_tile("t", what.steps, [&] {
    fence(!tight());
    code_.line(fmt::format("{} p[{}];", u_.weights_type(), what.tiles));
    each_tile("i", what.tiles, what.weights);
    each_tile("f", what.reads, [&] {
      fence(tight());
      code_.line(u_.turned_type() + " part;");
      what.part();
      each_tile("i", what.tiles, [&] {
        for (int64_t u = 0; u < u_.turned_units(); ++u) {
          if (!u_.mma()) {
            code_.line(fmt::format("MULTIPLY_ADD({}[i][f], {}, {});", what.sums,
                                   FlashUnit::part_of("part", u_.turned_units(), u),
                                   FlashUnit::part_of("p[i]", u_.turned_units(), u)));
            continue;
          }
          for (int64_t h = 0; h < 2; ++h) {
            std::string arguments;
            for (int64_t r = 0; r < u_.unit->a_registers(); ++r)
              arguments += fmt::format(", p[i][{}]", u * u_.unit->a_registers() + r);
            for (int64_t r = 0; r < u_.unit->b_registers(); ++r)
              arguments += fmt::format(", part[{}]", 2 * h + u * u_.unit->b_registers() + r);
            code_.line(fmt::format("MULTIPLY_ADD({}[i][2 * f + {}]{});", what.sums, h, arguments));
          }
        }
      });
    });
  });
}

/// sums += weights by other rows.
void FlashKernel::sum_others(const std::string& sums, const std::string& weights, const FlashBlock& other,
                             const std::string& at) {
  if (sums_anew()) return sum_anew(other, at);
  if (reads_ahead()) return sum_ahead(sums, weights, other, at);
  sum({.sums = sums,
       .tiles = point_.tiles,
       .reads = other.features() / u_.read(),
       .steps = point_.block / u_.turned_steps(),
       .weights = [&] { pack(weights, "t"); },
       .part = [&] { other.read_turned(code_, "part", at, "t", "f"); }});
}

}  // namespace athanor::gpu
