// The frame of attention's kernels by matrix units: what is where, and the parts in their order.
#include "athanor/kernels/gpu/templates/flash_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

FlashBlock own_block(const AttentionProblem& p, const FlashPoint& point, bool second) {
  const AttentionProblem::Matrix& matrix = p.by_keys() ? (second ? p.v : p.k) : (second ? p.g : p.q);
  return {matrix, second ? p.e : p.d, {point.rows(), point.items(), true, false, false}, point.unit};
}

FlashBlock other_block(const AttentionProblem& p, const FlashPoint& point, bool second, bool by_features,
                       bool by_rows) {
  const AttentionProblem::Matrix& matrix = p.by_keys() ? (second ? p.g : p.q) : (second ? p.v : p.k);
  const bool steps = point.unit.by_steps();
  const FlashBlock::Size size{point.block, point.items(), steps ? by_rows : by_features,
                              steps ? by_features : by_rows};
  return {matrix, second ? p.e : p.d, size, point.unit};
}

}  // namespace

FlashKernel::FlashKernel(const AttentionProblem& problem, const FlashPoint& point)
    : p_(problem),
      point_(point),
      u_(point.unit),
      own_1_(own_block(p_, point, false)),
      other_1_(other_block(p_, point, false, true, sums_by_first())) {
  if (p_.has_second()) own_2_ = own_block(p_, point, true);
  if (p_.kind != AttentionKind::lse)
    other_2_ = other_block(p_, point, true, p_.has_second(), sums_by_second());
  if (!of_all()) return;
  const FlashBlock::Size turned{point.rows(), point.items(), false, true, false},
      kept{point.rows(), point.items(), u_.by_steps(), !u_.by_steps()};
  kept_ = FlashBlock(p_.k, p_.d, kept, u_, "kept");
  put_ = FlashBlock({.name = "put"}, point.block, turned, u_);
}

bool FlashKernel::sums_by_second() const {
  return p_.kind == AttentionKind::forward || p_.kind == AttentionKind::grad_v ||
         p_.kind == AttentionKind::grad_kv || of_all();
}

int64_t FlashKernel::stage_elements() const {
  return other_1_.elements() + (other_2_ ? other_2_->elements() : 0);
}

int64_t FlashKernel::own_elements() const {
  if (u_.reads_own_directly()) return 0;
  return own_1_.elements() + (own_2_ ? own_2_->elements() : 0);
}

bool FlashKernel::own_in_turn() const {
  return own_2_ && !point_.own_local && own_elements() > stages() * stage_elements();
}

int64_t FlashKernel::kept_begin() const {
  const int64_t own = own_in_turn() ? std::max(own_1_.elements(), own_2_->elements()) : own_elements();
  return std::max(streams_begin() + stages() * stage_elements(), own);
}

int64_t FlashKernel::tile_elements() const {
  return kept_begin() + (of_all() ? kept_->elements() + put_->elements() : 0);
}

int64_t FlashKernel::local_bytes() const {
  return tile_elements() * u_.size() + (by_keys() ? stages() * 2 * point_.items() * 4 : 0);
}

int64_t FlashKernel::registers() const {
  const int64_t part = u_.unit->b_registers() == 8 ? 8 : 4, lane_share = u_.unit->wave;
  const int64_t own =
      point_.own_local
          ? 0
          : point_.tiles * (own_1_.features() + (own_2_ ? own_2_->features() : 0)) / u_.plain_steps() * part;
  const int64_t features =
      (sums_by_first() ? other_1_.features() : 0) + (sums_by_second() ? other_2_->features() : 0);
  const int64_t scores = point_.block * (p_.has_second() ? 2 : 1);
  int64_t held = 0;
  if (!point_.async) held = other_1_.held_registers() + (other_2_ ? other_2_->held_registers() : 0);
  return own + (features + scores) * point_.wave_rows() / lane_share + held + 4 * part + 24;
}

bool FlashKernel::even() const {
  return point_.async || (other_1_.even() && (!other_2_ || other_2_->even()));
}

bool FlashKernel::fits(const GpuTraits& traits, int64_t most_local_bytes) const {
  if (point_.items() > traits.max_group_size || local_bytes() > most_local_bytes) return false;
  if (point_.own_local && u_.reads_own_directly()) return false;
  for (const FlashBlock* block :
       {&own_1_, &other_1_, own_2_ ? &*own_2_ : nullptr, other_2_ ? &*other_2_ : nullptr})
    if (block != nullptr && !block->fits()) return false;
  if (p_.computed && (u_.reads_own_directly() || !own_1_.computes(*p_.computed))) return false;
  if (of_all() && !(kept_->fits() && shares())) return false;
  if (by_keys() && point_.block > point_.items()) return false;  // an item loads one query's numbers
  if (by_four() && (!point_.async || of_all() || point_.waves % 4 != 0 || own_1_.features() > 256 ||
                    (other_2_ && other_2_->features() > 256)))
    return false;
  return !point_.async || (other_1_.copies() && (!other_2_ || other_2_->copies()));
}

// ---- Text ----

std::string FlashKernel::c_type() const { return fmt::format("f32x{}", elements()); }

std::string FlashKernel::own_row(const std::string& i, int slot) const {
  return plus(fmt::format("own_begin + {}", times(i, u_.own_rows())), 8 * slot);
}

void FlashKernel::each_tile(const char* index, int64_t count, const Body& body) {
  for (int64_t round = 0; point_.unrolled && round < count; ++round) {
    code_.open("");
    code_.line(fmt::format("const int {} = {};", index, round));
    body();
    code_.close();
  }
  if (point_.unrolled) return;
  code_.open(fmt::format("UNROLL for (int {0} = 0; {0} < {1}; ++{0})", index, count));
  body();
  code_.close();
}

void FlashKernel::each_stream(const std::function<void(const FlashBlock&, int64_t)>& body) const {
  body(other_1_, 0);
  if (other_2_) body(*other_2_, other_1_.elements());
}

/// `hidden`: the compiler does not know the item. It would compute all places of a loop's body before the
/// loop, and keep them in registers.
void FlashKernel::declare_lanes(bool hidden) {
  code_.line("int item = LOCAL_ID(0);");
  if (hidden) code_.line("HIDDEN_LANE(item);");
  code_.line(fmt::format("const int lane = item % {0}, wave = item / {0};", u_.unit->wave));
  code_.line(fmt::format("const int other_lane = {};", lane_part(u_.unit->c, u_.other())));
}

void FlashKernel::zeros(const std::string& name, int64_t tiles, int64_t fragments) {
  code_.line(fmt::format("{} {}[{}][{}];", c_type(), name, tiles, fragments));
  each_tile("i", tiles, [&] {
    each_tile("f", fragments, [&] { code_.line(fmt::format("{}[i][f] = ({})(0.0f);", name, c_type())); });
  });
}

void FlashKernel::begin() {
  const int64_t chunks = ceil_div(p_.own(), point_.rows());
  code_.line(
      fmt::format("// A group has {} {}, each of its {} waves {}, and takes the {} in blocks of {}, by {}.",
                  point_.rows(), by_keys() ? "keys" : "queries", point_.waves, point_.wave_rows(),
                  by_keys() ? "queries" : "keys", point_.block, u_.name()));
  const std::string room = point_.room > 0 ? fmt::format("ROOM_FOR_WAVES({}) ", point_.room) : "";
  code_.open(fmt::format("KERNEL {}void flash_attention({})", room, p_.parameters));
  code_.line(p_.binds);
  const std::string_view type = language_name(p_.dtype);
  const int64_t of_numbers = by_keys() ? stages() * 2 * point_.items() : 0;
  if (point_.at_launch) {
    code_.line(fmt::format("LOCAL_AT_LAUNCH(STORED({}), tiles, {});", type, local_bytes() / u_.size()));
    if (of_numbers > 0) code_.line(fmt::format("f32 *const numbers = (f32 *)(tiles + {});", tile_elements()));
  } else {
    code_.line(fmt::format("LOCAL __attribute__((aligned({}))) STORED({}) tiles[{}];", by_four() ? 1024 : 16,
                           type, tile_elements()));
    if (of_numbers > 0) code_.line(fmt::format("LOCAL f32 numbers[{}];", of_numbers));
  }
  const int64_t rounds = of_all() ? point_.parts : chunks;
  code_.line(fmt::format("const i64 batch = {};", divided("GROUP_ID(0)", rounds)));
  std::string chunk = remainder("GROUP_ID(0)", rounds);
  if (of_all()) {
    code_.line(fmt::format("const int part = {};", chunk));
    code_.line("_Pragma(\"unroll 1\")");
    code_.open(fmt::format("for (int chunk = part; chunk < {}; chunk += {})", chunks, rounds));
    chunk = "chunk";
  }
  declare_lanes(of_all());
  if (of_all()) declare_queries();
  // Causal: the groups with most work begin first.
  code_.line(fmt::format("const int first = {} * {};",
                         p_.causal && !by_keys() ? fmt::format("({} - {})", chunks - 1, chunk) : chunk,
                         point_.rows()));
  code_.line(fmt::format("const int own_begin = first + wave * {} + {};", point_.wave_rows(),
                         lane_part(u_.unit->c, u_.own())));
}

GpuLaunch FlashKernel::launch() {
  begin();
  load_own();
  declare_rows();
  loop();
  if (by_four()) keep_own();
  if (softmax()) finish_rows();
  if (p_.kind == AttentionKind::lse) store_lse("out");
  if (p_.with_lse) store_lse("out_2");
  if (sums_by_first()) store(p_.out, "sums_1", p_.d, other_1_.features());
  if (sums_by_second()) store(sums_by_first() ? p_.out_2 : p_.out, "sums_2", p_.e, other_2_->features());
  if (of_all()) {
    code_.line("LOCAL_BARRIER();");  // the next chunk's keys come where these are
    code_.close();
  }
  code_.close();
  std::string words = by_four() ? "" : multiply_add_text(*u_.unit);
  for (const MultiplyRows& word : words_) words += multiply_rows_text(*u_.four, word);
  return {.name = "flash_attention",
          .source = words + functions_ + code_.text(),
          .groups = {p_.batches * (of_all() ? point_.parts : ceil_div(p_.own(), point_.rows())), 1, 1},
          .group_size = {point_.items(), 1, 1},
          .local_bytes = local_bytes(),
          .local_at_launch = point_.at_launch,
          .arguments = p_.arguments,
          .compile_options = compile_options_for(*u_.unit)};
}

}  // namespace athanor::gpu
