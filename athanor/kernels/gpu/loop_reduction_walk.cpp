// How a reduction walks its dimensions: columns, rows, and rows in chunks.
#include "athanor/kernels/gpu/loop_reduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

// The reduced dimensions that parts share, walked by one folded index: all except the innermost reduced one,
// which gets its own loop. In columns the innermost one is folded too if it is the only one, or if items
// share a column.
std::vector<int> ReductionKernels::folded() const {
  const bool all = reduced_.empty() || (!rows_ && (reduced_.size() == 1 || items_ > 1));
  return {reduced_.begin(), all ? reduced_.end() : reduced_.end() - 1};
}

std::string ReductionKernels::begin_of(const std::string& part, int64_t count) const {
  if (count % parts_ == 0) return fmt::format("({}){} * {}", index_type(), part, count / parts_);
  return fmt::format("({})((i64){} * {} / {})", index_type(), part, count, parts_);
}

// Opens the loops over reduced dimensions that lie outside the lanes; returns how many.
int ReductionKernels::open_reduced(Code& code, Names& index) const {
  int opened = 0;
  if (const auto dims = folded(); !dims.empty()) {
    const bool split = parts_ > 1, shared = !rows_ && items_ > 1;
    code.open(fmt::format("for ({} q = {}; q < {}; q += {})", index_type(),
                          plus(split ? begin_of("part", split_size_) : "0", shared ? own_item() : "0"),
                          split ? begin_of("(part + 1)", split_size_) : std::to_string(split_size_),
                          shared ? items_ : 1));
    unfold(code, "q", dims, index);
    ++opened;
  }
  if (!rows_ && folded().size() < reduced_.size()) {
    const int d = reduced_.back();
    code.open(fmt::format("for ({0} dim{1} = 0; dim{1} < {2}; ++dim{1})", index_type(), d, extent(d)));
    index[static_cast<size_t>(d)] = fmt::format("dim{}", d);
    ++opened;
  }
  return opened;
}

void ReductionKernels::accumulate_columns(Code& code, Names& index) {
  declare_accumulators(code, lanes_);
  const bool several = lanes_ > 1, vectors = vectors_.width > 1;
  const std::string column = several ? "column" : "first";
  if (!index.empty()) index.back() = column;
  // A loop over lanes: over one lane, its body alone.
  const auto over_lanes = [&](const std::string& loop, const std::function<void()>& lane) {
    if (!several) return lane();
    code.open(loop);
    code.line(fmt::format("const {} {} = first + v;", index_type(), column));
    lane();
    code.close();
  };
  const auto body = [&](const std::string& loop) {
    Names inside = index;
    if (vectors) inside.back() = "first";
    const auto known = vectors ? write_loads(code, program_, lanes_, inside, held_) : Names{};
    int opened = open_reduced(code, inside);
    if (opened == 0) code.open(""), ++opened;  // its registers have the names of the epilogue's
    if (vectors)
      write_vector(
          code, program_, {.width = lanes_, .may_end_behind = false}, index_type(), inside,
          [&](const Names& at) {
            code.line("const int v = e;");
            accumulate(code, at);
          },
          known);
    else
      over_lanes(loop, [&] { element(code, inside); });
    for (int i = 0; i < opened; ++i) code.close();
  };
  const bool ragged = inner_ % lanes_ != 0;
  const std::string tail = fmt::format("for (int v = 0; v < {} - first; ++v)", inner_);
  const bool guarded = open_for_results(code);
  if (ragged) code.open(fmt::format("if (first + {} <= {})", lanes_, inner_));
  body(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", lanes_));
  if (ragged) {
    code.close();
    code.open("else");
    body(tail);
    code.close();
  }
  if (guarded) code.close();
  if (items_ > 1) join_items(code, shared_result(), of_lane("v"));
  const std::string count =
      ragged ? fmt::format("MIN({}, {} - first)", lanes_, inner_) : std::to_string(lanes_);
  // A vector's accumulators are in registers, which have no variable index.
  over_lanes(fmt::format("{}for (int v = 0; v < {}; ++v)", vectors ? "UNROLL " : "", count),
             [&] { finish(code, plus(times("outer", inner_), column), of_lane("v"), index); });
}

void ReductionKernels::accumulate_rows(Code& code, Names& index) {
  declare_accumulators(code, lanes_);
  Names inside = index;
  const bool split_inner = folded().empty() && parts_ > 1, vectors = vectors_.width > 1;
  const bool guarded = open_for_results(code);
  const int opened = open_reduced(code, inside);
  const int d = reduced_.back();
  const int64_t count = vectors ? vectors_.blocks : inner_;
  std::string from = "0", to = std::to_string(count);
  if (split_inner) {
    code.line(fmt::format("const {} from = {}, to = {};", index_type(), begin_of("part", count),
                          begin_of("(part + 1)", count)));
    from = "from", to = "to";
  }
  inside[static_cast<size_t>(d)] = "x";
  if (traits_.grain->chunk_elements > 1) {
    accumulate_chunks(code, inside, from, to);
  } else {
    const std::string own = vectors ? "block" : "x";
    code.open(fmt::format("for ({0} {1} = {2}; {1} < {3}; {1} += {4})", index_type(), own,
                          plus(from, items_ > 1 ? own_item() : "0"), to, items_));
    if (lanes_ > 1) code.line("const int v = 0;");
    if (vectors)
      write_block(code, program_, vectors_, index_type(), inside, own,
                  [&](const Names& at) { accumulate(code, at); });
    else
      element(code, inside);
    code.close();
  }
  for (int i = 0; i < opened; ++i) code.close();
  if (guarded) code.close();
  // Join the lanes in halves, then the items.
  for (int64_t half = lanes_ / 2; half > 0; half /= 2) {
    code.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", half));
    join(code, "acc{0}[v]", "at{0}[v]", fmt::format("acc{{0}}[v + {}]", half),
         fmt::format("at{{0}}[v + {}]", half));
    code.close();
  }
  if (items_ > 1) join_items(code, shared_result(), of_lane("0"));
  finish(code, "k", of_lane("0"), index);
}

bool ReductionKernels::open_for_results(Code& code) const {
  const int64_t results = rows_ ? kept_size_ : columns_;
  if (items_ == 1 || results % rows_per_group_ == 0) return false;
  code.open(fmt::format("if (result < {})", results));
  return true;
}

SharedResult ReductionKernels::shared_result() const {
  return {.items = items_,
          .item = own_item(),
          .place = fmt::format("LOCAL_ID(1) * {} + LOCAL_ID(0)", rows_ ? items_ : rows_per_group_),
          .apart = rows_ ? 1 : rows_per_group_,
          .lanes = shared_lanes(),
          .places = items_ * rows_per_group_,
          .nobody = fmt::format("result >= {}", rows_ ? kept_size_ : columns_)};
}

// Walks a row in chunks: one long loop computes the elements of a chunk, then another reduces them. Compilers
// for CPUs vectorise each of these loops. They would not vectorise one loop that does both, nor an
// accumulator with a variable index; so the last lanes of a chunk are filled with neutral values. (Rows of
// 1000: four times as fast, and seven times if the body stores.)
void ReductionKernels::accumulate_chunks(Code& code, const Names& index, const std::string& from,
                                         const std::string& to) const {
  // Also for rows without elements: an array needs an element (otherwise Mesa's compiler ends the program).
  const int64_t chunk = std::clamp(ceil_div(inner_, lanes_) * lanes_, lanes_, traits_.grain->chunk_elements);
  code.open(fmt::format("for ({0} j = {1}; j < {2}; j += {3})", index_type(), from, to, chunk));
  code.line(fmt::format("const int count = MIN({}, {} - j);", chunk, to));
  for (size_t i = 0; i < reductions(); ++i)
    code.line(fmt::format("{} chunk{}[{}];", value_name(reduction(i)), i, chunk));
  code.open("PARALLEL for (int v = 0; v < count; ++v)");
  code.line(fmt::format("const {} x = j + v;", index_type()));
  compute(code, index);
  for (size_t i = 0; i < reductions(); ++i)
    code.line(fmt::format("chunk{}[v] = r{};", i, reduction(i).source));
  code.close();
  code.open(fmt::format("for (int v = count; v % {} != 0; ++v)", lanes_));
  for (size_t i = 0; i < reductions(); ++i)
    code.line(fmt::format("chunk{}[v] = {};", i, neutral(reduction(i))));
  code.close();
  code.open(fmt::format("for (int u = 0; u < count; u += {})", lanes_));
  code.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", lanes_));
  code.line(fmt::format("const {} x = j + u + v;", index_type()));
  accumulate(code, index, [](size_t i) { return fmt::format("chunk{}[u + v]", i); });
  code.close();
  code.close();
  code.close();
}

}  // namespace athanor::gpu
