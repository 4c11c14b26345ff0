// The launches of a reduction: its shape, the kernel that reduces, and the one that joins parts.
#include "athanor/kernels/gpu/loop_reduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/walked_strides.h"

namespace athanor::gpu {

// Bytes of neighbouring columns that items read together: a line of a cache of most GPUs.
constexpr int64_t line_bytes = 128;
// Vectors of columns that an item reduces, at least, and the most numbers that it keeps for them:
// accumulators, and what it holds of operands.
constexpr int64_t least_vectors = 4, most_numbers = 64;

GpuCandidate ReductionKernels::run() {
  choose_shape();
  reduce();
  if (parts_ > 1) join_parts();
  return std::move(result_);
}

// Items that can share results: as many as local memory has room for, and a power of two, because they join
// in halves.
int64_t ReductionKernels::sharing_limit() const {
  return power_of_two(std::min(group_limit(), traits_.local_bytes / (shared_bytes() * shared_lanes())));
}

void ReductionKernels::choose_shape() {
  rows_ = !reduced_.empty() && reduced_.back() == static_cast<int>(program_.space.size()) - 1;
  inner_ = program_.space.empty() ? 1 : program_.space.back();
  const int64_t units = traits_.compute_units;
  const Grain& grain = *traits_.grain;
  int64_t least = grain.reduced;  // elements of an item
  if (rows_) {
    lanes_ = std::min(grain.row_lanes, power_of_two(inner_));
    items_ = std::min({grain.row_items, sharing_limit(), power_of_two(2 * reduced_size_ - 1)});
    if (reduced_size_ > 0) choose_row_vectors();
    in_turn_ = grain.results_in_turn > 1;
    rows_per_group_ = in_turn_ ? std::clamp<int64_t>(kept_size_ / (4 * units), 1, grain.results_in_turn)
                               : std::clamp<int64_t>((items_ > 1 ? sharing_limit() : group_limit()) / items_,
                                                     1, std::max<int64_t>(1, kept_size_));
  } else {
    lanes_ = std::min(grain.column_lanes, power_of_two(inner_));
    const int64_t neighbours = choose_column_vectors();
    if (vectors_.width > 1) least = least_vectors * lanes_;
    columns_ = kept_size_ / std::max<int64_t>(1, inner_) * ceil_div(inner_, lanes_);
    const int64_t most = std::min(grain.column_items, sharing_limit());
    const int64_t fill = grain.side_by_side * grain.reduction_parts * units;
    items_ =
        std::min({power_of_two(fill / std::max<int64_t>(1, columns_)),
                  power_of_two(reduced_size_ * lanes_ / least), std::max<int64_t>(1, most / neighbours)});
    rows_per_group_ = std::min(most / items_, power_of_two(2 * columns_ - 1));
  }
  const int64_t groups = ceil_div(rows_ ? kept_size_ : columns_, rows_per_group_);
  const int64_t wanted = grain.reduction_parts * units;
  // Parts share the reduced dimensions except the innermost one, or that one too if it is the only one.
  split_size_ = 1;
  for (const int d : folded()) split_size_ *= extent(d);
  if (rows_ && reduced_.size() == 1) split_size_ = reduced_size_;
  // A second launch is worth it only for a device that would be half empty.
  if (groups < std::max(2 * units, wanted / 2) && kept_size_ > 0) {
    const int64_t work = reduced_size_ * (rows_ ? 1 : lanes_) / items_;
    const int64_t most = std::clamp<int64_t>(split_size_, 1, 1024);
    parts_ = std::clamp<int64_t>(std::min(ceil_div(wanted, groups), work / least), 1, most);
  }
}

// Chooses the longest vectors of which each item of a row has at least one. If all rows together have enough
// of them for the device, fewer items share a row.
void ReductionKernels::choose_row_vectors() {
  const int64_t enough = traits_.grain->loop_filling * traits_.compute_units;
  for (VectorRows& rows : vector_rows(program_, traits_)) {
    if (rows.blocks < items_ && kept_size_ * reduced_size_ / rows.width < enough) continue;
    items_ = std::min(items_, power_of_two(rows.blocks / 2));
    vectors_ = std::move(rows);
    return;
  }
}

// Chooses the longest vectors of columns that are whole, for which there is room, and that are enough for the
// device.
int64_t ReductionKernels::choose_column_vectors() {
  LoopProgram body = program_;
  body.epilogue.clear(), body.epilogue_stores.clear();
  walked_strides(body);  // what only the epilogue accesses has no place now
  const auto [used, _] = used_operands(body);
  held_.assign(body.operands.size(), false);
  int64_t widest = 1, numbers = std::ssize(program_.reductions);
  for (size_t i = 0; i < body.operands.size() && !program_.space.empty(); ++i) {
    if (!used[i]) continue;
    const LoopOperand& o = body.operands[i];
    const int64_t along = o.strides.back();
    const bool stored = std::ranges::count(program_.stores, static_cast<int>(i), &LoopStore::operand) > 0;
    held_[i] = !stored && (along == 0 || along == 1) &&
               std::ranges::all_of(reduced_, [&](int d) { return o.strides[static_cast<size_t>(d)] == 0; });
    if (held_[i])
      numbers += along;
    else
      widest = std::max(widest, static_cast<int64_t>(size_of(o.dtype)));
  }
  const int64_t enough = traits_.grain->loop_filling * traits_.compute_units;
  for (VectorRows& rows : vector_rows(body, traits_, held_)) {
    if (!rows.whole || numbers * rows.width > most_numbers ||
        2 * shared_bytes() * rows.width * group_limit() > traits_.local_bytes ||
        kept_size_ * reduced_size_ / rows.width < enough)
      continue;
    lanes_ = rows.width;
    vectors_ = std::move(rows);
    return std::max<int64_t>(1, line_bytes / (lanes_ * widest));
  }
  return line_bytes / 4;
}

void ReductionKernels::reduce() {
  Code code;
  begin_kernel(code, "reduce", parts_ > 1);
  if (items_ > 1) declare_shared(code, items_ * rows_per_group_ * shared_lanes());
  const int64_t results = rows_ ? kept_size_ : columns_;
  const int64_t groups = ceil_div(results, rows_per_group_);
  const bool items = items_ > 1;
  GpuLaunch launch;
  launch.name = "reduce";
  // Neighbouring items read neighbouring elements: of a row, or of several columns.
  launch.group_size = rows_ && items ? std::array{items_, rows_per_group_, int64_t{1}}
                                     : std::array{rows_per_group_, items_, int64_t{1}};
  launch.groups = {groups, parts_, 1};
  if (items) launch.local_bytes = items_ * rows_per_group_ * shared_lanes() * shared_bytes();
  if (in_turn_) {
    launch.group_size = {1, 1, 1};
    code.line(fmt::format("const {} first = GROUP_ID(0) * {};", index_type(), rows_per_group_));
  } else {
    code.line(fmt::format("const {} result = GROUP_ID(0) * {} + LOCAL_ID({});", index_type(), rows_per_group_,
                          rows_ && items ? 1 : 0));
  }
  if (parts_ > 1) code.line("const i32 part = GROUP_ID(1);");
  // All items of a group must reach its barriers, so none may return before them.
  const bool ragged = results % rows_per_group_ != 0;
  if (in_turn_)
    code.open(fmt::format("for ({0} k = first; k < MIN(first + {1}, {2}); ++k)", index_type(),
                          rows_per_group_, results));
  else if (ragged && !items)
    code.line(fmt::format("if (result >= {}) return;", results));
  if (!in_turn_) code.line(fmt::format("const {} k = result;", index_type()));
  Names index(program_.space.size());
  if (rows_) {
    unfold(code, "k", kept_, index);
    accumulate_rows(code, index);
  } else {
    const int64_t chunks = ceil_div(inner_, lanes_);
    code.line(fmt::format("const {} first = k % {} * {};", index_type(), chunks, lanes_));
    code.line(fmt::format("const {} outer = k / {};", index_type(), chunks));
    unfold(code, "outer", outer_kept(), index);
    accumulate_columns(code, index);
  }
  if (in_turn_) code.close();
  code.close();
  launch.source = code.text();
  launch.arguments = arguments(parts_ > 1);
  result_.name = fmt::format("{} loop", rows_ ? "rows" : "columns");
  result_.parameters = {
      {"lanes", lanes_}, {"items", items_}, {"results", rows_per_group_}, {"parts", parts_}};
  if (results > 0) result_.launches.push_back(std::move(launch));
}

// The second launch of a split reduction: `items` work-items of a group share a result.
void ReductionKernels::join_parts() {
  const auto places = partials();
  Code code;
  begin_kernel(code, "join", true);
  GpuLaunch launch;
  launch.name = "join";
  const auto [wide, items] = joining_group(parts_, kept_size_, traits_.local_bytes / shared_bytes(), traits_);
  launch.group_size = {wide, items, 1};
  launch.groups = {ceil_div(kept_size_, wide), 1, 1};
  if (items > 1) {
    declare_shared(code, wide * items);
    launch.local_bytes = wide * items * shared_bytes();
  }
  code.line(fmt::format("const {0} k = ({0})GLOBAL_ID(0);", index_type()));
  const std::string nobody = kept_size_ % wide == 0 ? "" : fmt::format("k >= {}", kept_size_);
  const bool guarded = !nobody.empty() && items > 1;  // those without a result must reach the barriers, too
  if (!nobody.empty() && !guarded) code.line(fmt::format("if ({}) return;", nobody));
  declare_accumulators(code, 1);
  if (guarded) code.open(fmt::format("if (k < {})", kept_size_));
  code.open(fmt::format("for (int part = {}; part < {}; part += {})", items > 1 ? "LOCAL_ID(1)" : "0", parts_,
                        items));
  code.line(fmt::format("const i64 place = (i64)part * {} + k;", kept_size_));
  for (size_t i = 0; i < reductions(); ++i) {
    const LoopReduction& r = reduction(i);
    code.line(
        fmt::format("const {} v{} = {}[place];", value_name(r), i, scratch(value_type(r), places[i].values)));
    if (is_argmax(r))
      code.line(fmt::format("const i64 w{} = {}[place];", i, scratch(DType::i64, places[i].indices)));
  }
  join(code, "acc{0}", "at{0}", "v{0}", "w{0}");
  code.close();
  if (guarded) code.close();
  if (items > 1)
    join_items(code,
               {.items = items,
                .item = "LOCAL_ID(1)",
                .place = fmt::format("LOCAL_ID(1) * {} + LOCAL_ID(0)", wide),
                .apart = wide,
                .nobody = nobody},
               "");
  Names index(program_.space.size());
  unfold(code, "k", kept_, index);
  epilogue(code, "", index);
  code.close();
  launch.source = code.text();
  launch.arguments = arguments(true);
  if (kept_size_ == 1) launch.joining = joining();
  result_.launches.push_back(std::move(launch));
}

GpuCandidate reduction_kernels(const LoopProgram& program, const GpuTraits& traits) {
  return ReductionKernels(program, traits).run();
}

}  // namespace athanor::gpu
