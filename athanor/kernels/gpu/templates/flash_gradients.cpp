// The gradient by queries in the kernel of all three (attention_gradients.cpp). It sums along own keys,
// which all waves have: they put the scores' gradients into local memory, and each sums some queries and
// features, which it adds to the part's copy.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/flash_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

int64_t FlashKernel::share() const { return ceil_div(query_tiles() * query_reads(), point_.waves); }

/// Whether all waves have the same share, or one piece at most.
bool FlashKernel::shares() const {
  if (share() == 1) return true;
  return query_tiles() * query_reads() % point_.waves == 0 &&
         (share() % query_reads() == 0 || query_reads() % share() == 0);
}

/// The condition for a wave to have a share; "" if all have.
std::string FlashKernel::has_share() const {
  const int64_t pieces = query_tiles() * query_reads();
  return pieces < point_.waves ? fmt::format("wave < {}", pieces) : "";
}

int64_t FlashKernel::copy_numbers() const {
  return ceil_div(p_.queries, point_.block) * point_.block * own_1_.features();
}

void FlashKernel::declare_queries() {
  const int64_t shares_of_row = query_reads() / share_reads();
  code_.line(fmt::format(
      "const int query_tile = {}, query_read = {};", times(divided("wave", shares_of_row), share_tiles()),
      shares_of_row == 1 ? "0" : times(fmt::format("wave % {}", shares_of_row), share_reads())));
  code_.line(
      fmt::format("GLOBAL u8 *const copy = (GLOBAL u8 *)(copies + GROUP_ID(0) * (i64){});", copy_numbers()));
  put_->declare_lanes(code_);
  code_.line(fmt::format(
      "const int put_to = {};",
      put_->place(fmt::format("wave * {} + {}", point_.wave_rows(), lane_part(u_.unit->c, u_.own())),
                  "other_lane")));
}

void FlashKernel::put_weights() {
  const std::string type(language_name(p_.dtype));
  each_tile("i", point_.tiles, [&] {
    each_tile("j", score_tiles(), [&] {
      for (int e = 0; e < elements(); e += 2) {
        const std::string pair =
            fmt::format("NEAR_PACKED({0}, products[i][j][{1}], products[i][j][{2}])", type, e, e + 1);
        const auto to = [&](int element) {
          return plus(fmt::format("put_to + i * {} + j * {}", put_->place(u_.own_rows(), 0),
                                  put_->place(0, u_.tile())),
                      put_begin() + put_->place(8 * slot_of(element), other_of(element)));
        };
        if (u_.mma()) {
          code_.line(fmt::format("WRITE_REGISTERS(1, tiles + {}, {});", to(e), pair));
          continue;
        }
        code_.open("");
        code_.line(fmt::format("const u32 pair = {};", pair));
        code_.line(fmt::format("tiles[{}] = (f16_bits)pair;", to(e)));
        code_.line(fmt::format("tiles[{}] = (f16_bits)(pair >> 16);", to(e + 1)));
        code_.close();
      }
    });
  });
}

/// For each four numbers that a lane has of `tiles` of queries: the numbers, by `r`, and their place in the
/// copy, from `copy` + `copy_at` on.
void FlashKernel::each_four(const char* sums, int64_t tiles, int64_t fragments, const Four& body) {
  const int64_t row = own_1_.features() / u_.tile() * fragment_bytes();
  each_tile("i", tiles, [&] {
    each_tile("f", fragments, [&] {
      for (int64_t e = 0; e < elements(); e += 4) {
        code_.open("");
        code_.line("u32x4 held;");
        body(fmt::format("{}[i][f][{}]", sums, plus("r", e)),
             plus(fmt::format("copy + i * {} + f * {}", row, fragment_bytes()), e * u_.unit->wave * 4));
        code_.close();
      }
    });
  });
}

/// What the part's former chunks added to the wave's share.
void FlashKernel::load_added() {
  const int64_t fragments = share_reads() * u_.per_read();
  code_.line(
      fmt::format("u32 copy_at = (u32)(((begin / {} + query_tile) * {} + query_read * {}) * {} + lane * 16);",
                  u_.own_rows(), own_1_.features() / u_.tile(), u_.per_read(), fragment_bytes()));
  zeros("added", share_tiles(), fragments);
  if (point_.parts == ceil_div(p_.own(), point_.rows())) return;
  const std::string works = has_share();
  code_.open(fmt::format("if (chunk != part{})", works.empty() ? "" : " && " + works));
  each_four("added", share_tiles(), fragments, [&](const std::string& numbers, const std::string& at) {
    code_.line(fmt::format("READ_GLOBAL(4, held, 0, {}, copy_at);", at));
    code_.line(fmt::format("UNROLL for (int r = 0; r < 4; ++r) {} = F32_OF_BITS(held[r]);", numbers));
  });
  code_.close();
}

void FlashKernel::sum_queries() {
  code_.line("LOCAL_BARRIER();");
  const std::string works = has_share();
  code_.open(works.empty() ? "" : fmt::format("if ({})", works));
  sum({.sums = "added",
       .tiles = share_tiles(),
       .reads = share_reads(),
       .steps = point_.rows() / u_.turned_steps(),
       .weights =
           [&] { put_->read_weights(code_, "p[i]", std::to_string(put_begin()), "t", "(query_tile + i)"); },
       .part =
           [&] {
             kept_->read_turned(code_, "part", std::to_string(kept_begin()), "t", "(query_read + f)");
           }});
  each_four(
      "added", share_tiles(), share_reads() * u_.per_read(),
      [&](const std::string& numbers, const std::string& at) {
        code_.line(fmt::format("UNROLL for (int r = 0; r < 4; ++r) held[r] = BITS_OF_F32({});", numbers));
        code_.line(fmt::format("WRITE_GLOBAL(4, {} + copy_at, held);", at));
      });
  code_.close();
}

GpuLaunch FlashKernel::sum_launch() {
  const int64_t fragments = own_1_.features() / u_.tile(), groups = ceil_div(p_.queries, point_.rows()),
                padded = ceil_div(p_.queries, point_.block) * point_.block;
  code_.line(
      fmt::format("// Adds the {} parts' copies of the gradient by queries, in their order.", point_.parts));
  const auto result = open_sum(code_, "flash_attention_sum", "f32", p_.out);
  declare_lanes(false);
  code_.line(fmt::format("const i64 batch = GROUP_ID(0) / {};", groups));
  code_.line(fmt::format("const int wave_begin = GROUP_ID(0) % {} * {} + wave * {};", groups, point_.rows(),
                         point_.wave_rows()));
  code_.line(fmt::format("const int own_begin = wave_begin + {};", lane_part(u_.unit->c, u_.own())));
  zeros("sums_1", point_.tiles, fragments);
  code_.open(fmt::format("for (int part = 0; part < {}; ++part)", point_.parts));
  code_.line(
      fmt::format("GLOBAL const u8 *const copy = (GLOBAL const u8 *)(copies + (batch * {} + part) * {});",
                  point_.parts, copy_numbers()));
  code_.line(fmt::format("u32 copy_at = (u32)(wave_begin / {} * {} + lane * 16);", u_.own_rows(),
                         fragments * fragment_bytes()));
  // No query of a block that begins earlier sees a key of the part, so nothing was written there.
  code_.line(fmt::format("const int written = {};", first_seeing(fmt::format("part * {}", point_.rows()))));
  each_four("sums_1", point_.tiles, fragments, [&](const std::string& numbers, const std::string& at) {
    code_.line(fmt::format("const int query = wave_begin + i * {};", u_.own_rows()));
    code_.open(
        fmt::format("if (query < {} && query / {} * {} >= written)", padded, point_.block, point_.block));
    code_.line(fmt::format("READ_GLOBAL(4, held, 0, {}, copy_at);", at));
    code_.line(fmt::format("UNROLL for (int r = 0; r < 4; ++r) {} += F32_OF_BITS(held[r]);", numbers));
    code_.close();
  });
  code_.close();
  store(p_.out, "sums_1", p_.d, own_1_.features());
  code_.close();
  return {.name = "flash_attention_sum",
          .source = functions_ + code_.text(),
          .groups = {p_.batches * groups, 1, 1},
          .group_size = {point_.items(), 1, 1},
          .arguments = result,
          // Words for exchanges in OpenCL. It needs no more registers than other kernels.
          .compile_options = u_.unit->exchanges_lanes() ? compile_options_for(*u_.unit) : ""};
}

}  // namespace athanor::gpu
