// The end of attention's kernels: results go to memory.
#include <fmt/format.h>

#include <numbers>

#include "athanor/kernels/gpu/templates/flash_kernel.h"
#include "athanor/kernels/gpu/templates/lane_exchange.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// Each lane has summed some of a row's weights: now it gets the sum of all.
void FlashKernel::finish_rows() {
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s)
      for (size_t bit = 0; (1 << bit) < u_.unit->wave; ++bit)
        if (u_.unit->c.lane[bit].*u_.other() != 0)
          code_.line(fmt::format(
              "total[i][{0}] += F32_OF_BITS(SHUFFLE_XOR(BITS_OF_F32(total[i][{0}]), {1}));", s, 1 << bit));
  });
}

void FlashKernel::store_lse(const char* out) {
  // The largest score is still without the scale, unless it is an exponent of 2 or has a mask.
  const double of_largest = !scaled_first() ? p_.scale : masked() ? 1 : std::numbers::ln2;
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) {
      code_.open(fmt::format("if (other_lane == 0 && {} < {})", own_row("i", s), p_.own()));
      code_.line(fmt::format("STORE(f32, {}, batch * {} + {}, largest[i][{}]{} + log_f32(total[i][{}]));",
                             out, p_.own(), own_row("i", s), s, times_f32(of_largest), s));
      code_.close();
    }
  });
}

/// The factor of results before they go to memory, as an expression. Declares what it uses.
std::string FlashKernel::result_scale(const std::string& sums, int slot) {
  if (!softmax()) return sums == "sums_1" ? fmt::format(" * {:.9e}f", p_.scale) : "";
  code_.line(fmt::format("const f32 share = 1.0f / total[i][{}];", slot));
  return " * share";
}

/// Stores runs of 8 or 4 features: lanes exchange elements of several of the unit's tiles.
void FlashKernel::store_exchanged(const AttentionProblem::Matrix& out, const std::string& sums,
                                  int64_t features, int64_t pairs) {
  const std::string type(language_name(p_.dtype));
  const std::string feature = lane_part(behind_exchange(u_.unit->c, pairs), u_.other());
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) {
      code_.open("");
      const std::string scale = result_scale(sums, s);
      code_.line(fmt::format("GLOBAL STORED({}) *const row = {} + ({}) + ({}) * (i64){};", type, out.name,
                             out.start, own_row("i", s), out.row));
      for (int64_t f = 0; f < features / u_.tile(); f += pairs) {
        code_.open("");
        code_.line(fmt::format("u32x{} together;", pairs));
        for (int64_t p = 0; p < pairs; ++p) {
          const auto value = [&](int e) {
            return fmt::format("{}[i][{}][{}]{}", sums, f + p, 2 * s + e, scale);
          };
          code_.line(fmt::format("together[{}] = PACKED({}, {}, {});", p, type, value(0), value(1)));
        }
        exchange_pairs(code_, "together", pairs, 1);
        code_.line(fmt::format("if ({} < {}) WRITE_EXCHANGED({}, row + {}, together);", own_row("i", s),
                               p_.own(), pairs, plus(feature, f * u_.tile())));
        code_.close();
      }
      code_.close();
    }
  });
}

/// Stores [own row][feature]; a row's features lie together.
void FlashKernel::store(const AttentionProblem::Matrix& out, const std::string& sums, int64_t features,
                        int64_t padded) {
  for (const int64_t pairs : {4, 2})
    if (u_.mma() && u_.size() == 2 && features % (8 * pairs) == 0 && out.vector % (2 * pairs) == 0)
      return store_exchanged(out, sums, features, pairs);
  const std::string type(language_name(p_.dtype));
  // How many features a lane has one after another.
  int64_t run = 1;
  while (run < 8 && run < elements() && slot_of(static_cast<int>(run)) == 0 &&
         other_of(static_cast<int>(run)) == run && features % (2 * run) == 0 && out.vector % (2 * run) == 0)
    run *= 2;
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) {
      code_.open(fmt::format("if ({} < {})", own_row("i", s), p_.own()));
      code_.line(fmt::format("GLOBAL STORED({}) *const row = {} + ({}) + ({}) * (i64){};", type, out.name,
                             out.start, own_row("i", s), out.row));
      const std::string scale = result_scale(sums, s);
      each_tile("f", padded / u_.tile(), [&] {
        for (int e = 0; e < elements(); e += static_cast<int>(run)) {
          if (slot_of(e) != s) continue;
          const auto value = [&](int64_t r) { return fmt::format("{}[i][f][{}]{}", sums, e + r, scale); };
          code_.open("");
          code_.line(fmt::format("const int feature = {};",
                                 plus(fmt::format("other_lane + f * {}", u_.tile()), other_of(e))));
          if (features < padded) code_.open(fmt::format("if (feature < {})", features));
          if (run == 1) {
            code_.line(fmt::format("STORE({}, row, feature, {});", type, value(0)));
          } else if (u_.size() == 4) {
            code_.line(fmt::format("u32x{} together;", run));
            for (int64_t r = 0; r < run; ++r)
              code_.line(fmt::format("together[{}] = BITS_OF_F32({});", r, value(r)));
            code_.line(fmt::format("WRITE_GLOBAL({}, row + feature, together);", run));
          } else {
            code_.line(fmt::format("{} together;", run == 2 ? "u32" : fmt::format("u32x{}", run / 2)));
            for (int64_t r = 0; r < run; r += 2)
              code_.line(fmt::format("together{} = PACKED({}, {}, {});",
                                     run == 2 ? "" : fmt::format("[{}]", r / 2), type, value(r),
                                     value(r + 1)));
            code_.line(fmt::format("WRITE_GLOBAL({}, row + feature, together);", run / 2));
          }
          if (features < padded) code_.close();
          code_.close();
        }
      });
      code_.close();
    }
  });
}

}  // namespace athanor::gpu
