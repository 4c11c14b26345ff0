// The shape of a chain's kernel: how rows and their elements are divided among work-items.
#include "athanor/kernels/gpu/loop_chain.h"

#include <algorithm>
#include <set>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"

namespace athanor {
namespace gpu {

// The most numbers that an item sums over rows: each stays in a register.
constexpr int64_t most_column_numbers = 48;
// Groups of sums over rows for each unit: enough to fill it. Each stores its part of the sums, so if rows are
// few, fewer groups have some turns each.
constexpr int64_t most_column_groups = 4, least_column_groups = 2, worthwhile_turns = 4;
// A row has the items of a long group if it has more vectors.
constexpr int64_t long_row = 4096, long_group = 1024;
// Turns of an item in a row for which few groups are enough.
constexpr int64_t few_turns = 16;

ChainKernel::ChainKernel(RowChain chain, const GpuTraits& traits)
    : chain_(std::move(chain)), traits_(traits) {
  int buffers = 0;
  for (const LoopProgram& p : chain_.loops) {
    for (const LoopOperand& o : p.operands) {
      buffers = std::max(buffers, o.buffer + 1);
      int64_t far = std::abs(o.offset);
      for (size_t d = 0; d < o.strides.size(); ++d) far += std::abs(o.strides[d]) * (p.space[d] - 1);
      wide_ |= far > INT32_MAX;
    }
    wide_ |= p.iterations() > INT32_MAX;
  }
  for (LoopProgram& p : chain_.loops) p.buffers = std::max(p.buffers, buffers);
  types_.assign(static_cast<size_t>(loop(0).buffers), DType::u8);
  for (const LoopProgram& p : chain_.loops)
    for (const LoopOperand& o : p.operands) types_[static_cast<size_t>(o.buffer)] = o.dtype;
  columns_ = std::ranges::count(chain_.roles, RowRole::columns) > 0;
  choose_vectors();
  choose_shape();
}

// The longest vectors that all loops can move, at the same places of a row. Sums over rows need whole ones,
// because each of their numbers has its register.
void ChainKernel::choose_vectors() {
  vectors_.blocks = chain_.row();
  const auto alike = [](const VectorRows& a, const VectorRows& b) {
    return a.width == b.width && a.blocks == b.blocks && a.offset == b.offset && a.strides == b.strides;
  };
  for (const VectorRows& one : vector_rows(loop(0), traits_)) {
    if (columns_ && !one.whole) continue;
    const bool all = std::ranges::all_of(chain_.loops, [&](const LoopProgram& p) {
      return std::ranges::any_of(vector_rows(p, traits_),
                                 [&](const auto& other) { return alike(one, other); });
    });
    if (!all) continue;
    vectors_ = one;
    return;
  }
}

int64_t ChainKernel::turns_of_item() const { return ceil_div(vectors_.blocks, items_); }

void ChainKernel::choose_shape() {
  const int64_t blocks = vectors_.blocks, rows = chain_.rows(), units = traits_.compute_units;
  const int64_t most = power_of_two(
      std::min(traits_.max_group_size, blocks > long_row ? long_group : traits_.grain->loop_items));
  // The most items of which each has at least two blocks and few are idle in the last turn.
  const auto idle = [&](int64_t items) { return ceil_div(blocks, items) * items - blocks; };
  items_ = 1;
  for (int64_t items = std::min(most, power_of_two(std::max<int64_t>(1, blocks / 2))); items >= 1; items /= 2)
    if (8 * idle(items) <= blocks) {
      items_ = items;
      break;
    }
  while (columns_ && column_numbers() > most_column_numbers && items_ < most) items_ *= 2;
  constexpr int64_t smallest = 64;  // items of a group, if there are too few groups
  slots_ = std::max<int64_t>(1, std::min(most / items_, power_of_two(2 * rows - 1)));
  while (slots_ > 1 && ceil_div(rows, slots_) < units && slots_ * items_ > smallest) slots_ /= 2;
  groups_ = ceil_div(rows, slots_);
  if (columns_) {
    turns_ = std::max(ceil_div(groups_, most_column_groups * units),
                      std::min(ceil_div(groups_, least_column_groups * units), worthwhile_turns));
    groups_ = ceil_div(groups_, turns_);
  }
  ragged_ = groups_ * turns_ * slots_ != rows;
}

int64_t ChainKernel::column_numbers() const {
  int64_t sums = 0;
  for (size_t l = 0; l < chain_.loops.size(); ++l)
    if (chain_.roles[l] == RowRole::columns) sums += std::ssize(loop(l).reductions);
  return sums * turns_of_item() * vectors_.width;
}

bool ChainKernel::is_taken() const {
  if (!traits_.grain->chains_rows) return false;
  for (const LoopProgram& p : chain_.loops)
    if (const auto types = register_types(p);
        !traits_.f64 && std::ranges::find(types, DType::f64) != types.end())
      return false;
  const bool filled = groups_ >= traits_.compute_units || turns_of_item() <= few_turns;
  return filled && loop(0).buffers < traits_.max_buffers && local_bytes() <= traits_.local_bytes &&
         (!columns_ || column_numbers() <= most_column_numbers);
}

}  // namespace gpu

bool gpu_takes_row_chain(std::span<const LoopProgram> loops, const GpuTraits& traits) {
  if (!traits.grain->chains_rows) return false;
  auto chain = row_chain(loops);
  return chain && gpu::ChainKernel(*std::move(chain), traits).is_taken();
}

GpuCandidate gpu_row_chain(std::span<const LoopProgram> loops, const GpuTraits& traits) {
  auto chain = row_chain(loops);
  if (!chain) throw Error(ErrorCode::internal, "these loops are no chain of rows");
  return gpu::ChainKernel(*std::move(chain), traits).run();
}

}  // namespace athanor
