// Fused loops as kernels. Three shapes:
//   map      no reduction: a work-item an element.
//   columns  the innermost dimension is kept: a work-item sums up `lanes` neighbouring columns.
//   rows     the innermost dimension is reduced: `items` work-items of a group share a row, `lanes`
//   neighbours each.
// A reduction with few results is split into `parts` that a second launch joins.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor {
namespace {

using gpu::Code;
using Names = std::vector<std::string>;

constexpr int64_t max_groups = 65535;  // along the second and third dimension, on CUDA and HIP
// A part of a split reduction walks at least this many elements: less is not worth a second launch.
constexpr int64_t least_part = 4096;
// On CPUs, elements of a row that are computed before they are reduced: they stay in the first cache.
constexpr int64_t longest_chunk = 1024;
// On CPUs, what an item of a loop without reductions does.
constexpr int64_t item_elements = 8192;

int64_t power_of_two(int64_t at_most) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, at_most))));
}

class LoopKernels {
 public:
  LoopKernels(const LoopProgram& program, const GpuTraits& traits)
      : program_(program), traits_(traits), types_(gpu::register_types(program)) {
    for (size_t d = 0; d < program.space.size(); ++d)
      (program.reduced[d] ? reduced_ : kept_).push_back(static_cast<int>(d));
    for (int d : kept_) kept_size_ *= extent(d);
    for (int d : reduced_) reduced_size_ *= extent(d);
    wide_ = std::max(kept_size_, int64_t{1}) * std::max(reduced_size_, int64_t{1}) > INT32_MAX;
    for (const LoopOperand& o : program.operands) wide_ |= reaches_far(o);
  }

  GpuCandidate run() {
    if (program_.reductions.empty()) {
      map();
    } else {
      choose_shape();
      reduce();
      if (parts_ > 1) join_parts();
    }
    return std::move(result_);
  }

 private:
  int64_t extent(int d) const { return program_.space[static_cast<size_t>(d)]; }
  std::string_view index_type() const { return wide_ ? "i64" : "i32"; }

  // Whether an element lies further than 32-bit arithmetic on indices goes.
  bool reaches_far(const LoopOperand& o) const {
    int64_t far = std::abs(o.offset);
    for (size_t d = 0; d < o.strides.size(); ++d)
      far += std::abs(o.strides[d]) * std::max<int64_t>(0, program_.space[d] - 1);
    return far > INT32_MAX;
  }

  // ---- map ----

  void map() {
    Code code;
    GpuLaunch launch;
    const int rank = static_cast<int>(program_.space.size());
    const bool rows = rank > 1 && extent(rank - 1) >= 16;
    begin_kernel(code, "map");
    if (rows && traits_.is_cpu)
      map_rows(code, launch);
    else if (rows)
      map_neighbours(code, launch);
    else
      map_flat(code, launch);
    code.close();
    launch.name = "map";
    launch.source = code.text();
    launch.arguments = arguments(false);
    result_.name = "loop";
    if (kept_size_ > 0) result_.launches.push_back(std::move(launch));
  }

  void map_flat(Code& code, GpuLaunch& launch) const {
    const int64_t wide = std::min(std::min<int64_t>(group_limit(), 1024), power_of_two(2 * kept_size_ - 1));
    launch.group_size = {wide, 1, 1};
    launch.groups = {ceil_div(kept_size_, wide), 1, 1};
    code.line(fmt::format("const {} flat = ({})GLOBAL_ID(0);", index_type(), index_type()));
    code.line(fmt::format("if (flat >= {}) return;", kept_size_));
    Names index(program_.space.size());
    unfold(code, "flat", kept_, index);
    compute(code, index);
  }

  // Work-items along the innermost dimension: neighbours are seen to be neighbours, no division per element.
  void map_neighbours(Code& code, GpuLaunch& launch) const {
    const int64_t inner = program_.space.back(), outer = kept_size_ / inner;
    int64_t wide = std::min(group_limit(), power_of_two(2 * inner - 1));
    wide = ceil_div(inner, ceil_div(inner, wide));  // even shares
    wide = std::min<int64_t>(ceil_div(wide, 16) * 16, group_limit());
    const int64_t high = std::max<int64_t>(1, group_limit() / wide);
    const int64_t rows = ceil_div(outer, high), z = ceil_div(rows, max_groups);
    launch.group_size = {wide, high, 1};
    launch.groups = {ceil_div(inner, wide), ceil_div(rows, z), z};
    code.line(fmt::format("const {} x = ({})GLOBAL_ID(0);", index_type(), index_type()));
    code.line(fmt::format("const {} outer = ({})GLOBAL_ID(1) + ({})GLOBAL_ID(2) * {};", index_type(),
                          index_type(), index_type(), launch.groups[1] * high));
    code.line(fmt::format("if (x >= {} || outer >= {}) return;", inner, outer));
    Names index(program_.space.size());
    unfold(code, "outer", outer_kept(), index);
    index.back() = "x";
    compute(code, index);
  }

  // On CPUs: an item takes some rows, or a piece of a long one. (Neighbours as items of a group take twice as
  // long: a group's start costs as much as some thousand elements.)
  void map_rows(Code& code, GpuLaunch& launch) const {
    const int64_t inner = program_.space.back(), outer = kept_size_ / inner;
    const int64_t piece = ceil_div(inner, ceil_div(inner, item_elements));
    const int64_t rows =
        std::clamp<int64_t>(outer / (4L * traits_.compute_units), 1, ceil_div(item_elements, inner));
    launch.groups = {ceil_div(inner, piece), ceil_div(outer, rows), 1};
    code.line(fmt::format("const {0} from = ({0})GLOBAL_ID(0) * {1}, first = ({0})GLOBAL_ID(1) * {2};",
                          index_type(), piece, rows));
    code.open(fmt::format("for ({} outer = first; outer < MIN(first + {}, {}); ++outer)", index_type(), rows,
                          outer));
    Names index(program_.space.size());
    unfold(code, "outer", outer_kept(), index);
    code.open(
        fmt::format("PARALLEL for ({} x = from; x < MIN(from + {}, {}); ++x)", index_type(), piece, inner));
    index.back() = "x";
    compute(code, index);
    code.close();
    code.close();
  }

  int64_t group_limit() const {
    return traits_.is_cpu ? traits_.max_group_size : std::min<int64_t>(256, traits_.max_group_size);
  }

  std::vector<int> outer_kept() const {
    return {kept_.begin(), kept_.empty() ? kept_.end() : kept_.end() - 1};
  }

  // Declares i<d> for each of `dims`, from a folded index; fills `index`.
  void unfold(Code& code, const std::string& flat, const std::vector<int>& dims, Names& index) const {
    int64_t below = 1;
    for (size_t n = dims.size(); n-- > 0;) {
      const int d = dims[n];
      std::string value = below == 1 ? flat : fmt::format("{} / {}", flat, below);
      if (n > 0) value = fmt::format("{} % {}", value, extent(d));
      index[static_cast<size_t>(d)] = fmt::format("dim{}", d);
      code.line(fmt::format("const {} dim{} = {};", index_type(), d, value));
      below *= std::max<int64_t>(1, extent(d));  // nothing runs where an extent is 0
    }
  }

  // ---- reductions ----

  void choose_shape() {
    rows_ = !reduced_.empty() && reduced_.back() == static_cast<int>(program_.space.size()) - 1;
    inner_ = program_.space.empty() ? 1 : program_.space.back();
    const int64_t units = traits_.compute_units;
    if (rows_) {
      lanes_ = traits_.is_cpu ? std::min<int64_t>(32, power_of_two(inner_)) : 1;
      items_ = traits_.is_cpu ? 1 : std::min<int64_t>(group_limit(), power_of_two(2 * reduced_size_ - 1));
      rows_per_group_ = std::clamp<int64_t>((traits_.is_cpu ? 16 : group_limit()) / items_, 1,
                                            std::max<int64_t>(1, kept_size_));
      if (traits_.is_cpu) rows_per_group_ = std::clamp<int64_t>(kept_size_ / (4 * units), 1, 16);
    } else {
      lanes_ = traits_.is_cpu ? std::min<int64_t>(64, power_of_two(inner_)) : 1;
      items_ = 1;
      columns_ = kept_size_ / std::max<int64_t>(1, inner_) * ceil_div(inner_, lanes_);
      rows_per_group_ = traits_.is_cpu ? 1 : std::min<int64_t>(group_limit(), power_of_two(2 * columns_ - 1));
    }
    const int64_t groups = ceil_div(rows_ ? kept_size_ : columns_, rows_per_group_);
    const int64_t wanted = traits_.is_cpu ? 2 * units : 8 * units;
    // What is shared out between parts: the reduced elements but those of the innermost reduced dimension,
    // unless that is all there is.
    split_size_ =
        reduced_.size() > 1 ? reduced_size_ / std::max<int64_t>(1, extent(reduced_.back())) : reduced_size_;
    if (groups < wanted && kept_size_ > 0) {
      const int64_t work = reduced_size_ * (rows_ ? 1 : lanes_);
      const int64_t most = std::clamp<int64_t>(split_size_, 1, 1024);
      parts_ = std::clamp<int64_t>(std::min(ceil_div(wanted, groups), work / least_part), 1, most);
    }
  }

  size_t reductions() const { return program_.reductions.size(); }
  const LoopReduction& reduction(size_t i) const { return program_.reductions[i]; }
  static bool is_argmax(const LoopReduction& r) { return r.prim == Prim::argmax; }
  // The type that is compared or summed up: an argmax carries values beside its index.
  DType value_type(const LoopReduction& r) const {
    return is_argmax(r) ? types_[static_cast<size_t>(r.source)] : r.type;
  }
  std::string value_name(const LoopReduction& r) const { return std::string(language_name(value_type(r))); }

  void reduce() {
    Code code;
    begin_kernel(code, "reduce", parts_ > 1);
    if (items_ > 1)
      for (size_t i = 0; i < reductions(); ++i) {
        code.line(
            fmt::format("LOCAL {} shared{}[{}];", value_name(reduction(i)), i, items_ * rows_per_group_));
        if (is_argmax(reduction(i)))
          code.line(fmt::format("LOCAL i64 shared_at{}[{}];", i, items_ * rows_per_group_));
      }
    const int64_t results = rows_ ? kept_size_ : columns_;
    const int64_t groups = ceil_div(results, rows_per_group_);
    const bool items = items_ > 1;
    const int64_t z = ceil_div(groups, int64_t{1} << 30);
    GpuLaunch launch;
    launch.name = "reduce";
    launch.group_size = items ? std::array{items_, rows_per_group_, int64_t{1}}
                              : std::array{rows_per_group_, int64_t{1}, int64_t{1}};
    launch.groups = {groups, parts_, z};
    if (items)
      for (size_t i = 0; i < reductions(); ++i)
        launch.local_bytes += items_ * rows_per_group_ *
                              static_cast<int64_t>(size_of(value_type(reduction(i))) +
                                                   (is_argmax(reduction(i)) ? sizeof(int64_t) : 0));
    const bool in_turn = rows_ && traits_.is_cpu;  // an item does the group's results
    if (in_turn) {
      launch.group_size = {1, 1, 1};
      code.line(fmt::format("const {} first = GROUP_ID(0) * {};", index_type(), rows_per_group_));
    } else {
      code.line(fmt::format("const {} result = GROUP_ID(0) * {} + LOCAL_ID({});", index_type(),
                            rows_per_group_, items ? 1 : 0));
    }
    if (parts_ > 1) code.line("const i32 part = GROUP_ID(1);");
    // Whoever has a barrier ahead may not leave: it works on a result that exists, and does not store it.
    const bool ragged = results % rows_per_group_ != 0;
    if (in_turn)
      code.open(fmt::format("for ({0} k = first; k < MIN(first + {1}, {2}); ++k)", index_type(),
                            rows_per_group_, results));
    else if (ragged && !items)
      code.line(fmt::format("if (result >= {}) return;", results));
    if (!in_turn)
      code.line(fmt::format("const {} k = {};", index_type(),
                            ragged && items ? fmt::format("MIN(result, {})", results - 1) : "result"));
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
    if (in_turn) code.close();
    code.close();
    launch.source = code.text();
    launch.arguments = arguments(parts_ > 1);
    result_.name = fmt::format("{} loop", rows_ ? "rows" : "columns");
    result_.parameters = {
        {"lanes", lanes_}, {"items", items_}, {"results", rows_per_group_}, {"parts", parts_}};
    if (results > 0) result_.launches.push_back(std::move(launch));
  }

  void declare_accumulators(Code& code) const {
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      code.line(fmt::format("{} acc{}[{}];", value_name(r), i, lanes_));
      if (is_argmax(r)) code.line(fmt::format("i64 at{}[{}];", i, lanes_));
    }
    code.open(lane_loop());
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      // Nothing has been seen: at -1 stands for "less than everything".
      code.line(fmt::format("acc{}[v] = {};", i, is_argmax(r) ? "0" : gpu::reduction_identity(r)));
      if (is_argmax(r)) code.line(fmt::format("at{}[v] = -1;", i));
    }
    code.close();
  }
  std::string lane_loop() const { return fmt::format("UNROLL for (int v = 0; v < {}; ++v)", lanes_); }

  // One element: the body's registers and stores, and what the accumulators of lane v become.
  void element(Code& code, const Names& index) const {
    compute(code, index);
    accumulate(code, index, [&](size_t i) { return fmt::format("r{}", reduction(i).source); });
  }
  void compute(Code& code, const Names& index) const {
    gpu::emit_steps(code, program_, program_.body, 0, index);
    gpu::emit_stores(code, program_, program_.stores, index);
  }
  // `source_of` gives what a reduction takes up.
  void accumulate(Code& code, const Names& index, const std::function<std::string(size_t)>& source_of) const {
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      const std::string acc = fmt::format("acc{}[v]", i), source = source_of(i);
      if (!is_argmax(r)) {
        code.line(fmt::format("{} = {};", acc, gpu::combine(r, acc, source)));
        continue;
      }
      std::string at;  // among the reduced elements, in their order
      int64_t below = 1;
      for (size_t n = reduced_.size(); n-- > 0;) {
        at += fmt::format("{}{} * (i64){}", at.empty() ? "" : " + ", below,
                          index[static_cast<size_t>(reduced_[n])]);
        below *= extent(reduced_[n]);
      }
      take_larger(code, r, acc, fmt::format("at{}[v]", i), source, "(" + at + ")");
    }
  }

  // The larger of two (value, index), NaN being largest and the first of equals winning.
  void take_larger(Code& code, const LoopReduction& r, const std::string& acc, const std::string& at,
                   const std::string& value, const std::string& value_at) const {
    const std::string larger = is_float(value_type(r))
                                   ? fmt::format("({0} > {1} || ({0} != {0} && {1} == {1}))", value, acc)
                                   : fmt::format("({} > {})", value, acc);
    const std::string same = is_float(value_type(r))
                                 ? fmt::format("({0} == {1} || ({0} != {0} && {1} != {1}))", value, acc)
                                 : fmt::format("({} == {})", value, acc);
    code.open(
        fmt::format("if ({1} >= 0 && ({0} < 0 || {2} || ({3} && {1} < {0})))", at, value_at, larger, same));
    code.line(fmt::format("{} = {};", acc, value));
    code.line(fmt::format("{} = {};", at, value_at));
    code.close();
  }

  // The reduced dimensions that are shared out between parts and walked by one folded index: all but the
  // innermost reduced one, which gets a loop of its own; for columns that one too when it is the only one.
  std::vector<int> folded() const {
    const bool all = reduced_.empty() || (!rows_ && reduced_.size() == 1);
    return {reduced_.begin(), all ? reduced_.end() : reduced_.end() - 1};
  }

  // Opens the loops over reduced dimensions outside of the lanes; gives how many.
  int open_reduced(Code& code, Names& index) const {
    int opened = 0;
    if (const auto dims = folded(); !dims.empty()) {
      const auto at = [&](const char* part) {
        return fmt::format("({})((i64){} * {} / {})", index_type(), part, split_size_, parts_);
      };
      const bool split = parts_ > 1;
      code.open(fmt::format("for ({} q = {}; q < {}; ++q)", index_type(), split ? at("part") : "0",
                            split ? at("(part + 1)") : std::to_string(split_size_)));
      unfold(code, "q", dims, index);
      ++opened;
    }
    if (!rows_ && reduced_.size() > 1) {
      const int d = reduced_.back();
      code.open(fmt::format("for ({0} dim{1} = 0; dim{1} < {2}; ++dim{1})", index_type(), d, extent(d)));
      index[static_cast<size_t>(d)] = fmt::format("dim{}", d);
      ++opened;
    }
    return opened;
  }

  void accumulate_columns(Code& code, Names& index) {
    declare_accumulators(code);
    const std::string column = "column";
    if (!index.empty()) index.back() = column;
    const auto body = [&](const std::string& loop) {
      Names inside = index;
      const int opened = open_reduced(code, inside);
      code.open(loop);
      code.line(fmt::format("const {} {} = first + v;", index_type(), column));
      element(code, inside);
      code.close();
      for (int i = 0; i < opened; ++i) code.close();
    };
    const bool ragged = inner_ % lanes_ != 0;
    const std::string tail = fmt::format("for (int v = 0; v < {} - first; ++v)", inner_);
    if (ragged) code.open(fmt::format("if (first + {} <= {})", lanes_, inner_));
    body(lane_loop());
    if (ragged) {
      code.close();
      code.open("else");
      body(tail);
      code.close();
    }
    code.open(
        fmt::format("for (int v = 0; v < {}; ++v)",
                    ragged ? fmt::format("MIN({}, {} - first)", lanes_, inner_) : std::to_string(lanes_)));
    code.line(fmt::format("const {} {} = first + v;", index_type(), column));
    finish(code, fmt::format("outer * {} + {}", inner_, column), "v", index);
    code.close();
  }

  void accumulate_rows(Code& code, Names& index) {
    declare_accumulators(code);
    Names inside = index;
    const bool split_inner = folded().empty() && parts_ > 1;
    const int opened = open_reduced(code, inside);
    const int d = reduced_.back();
    std::string from = "0", to = std::to_string(inner_);
    if (split_inner) {
      code.line(fmt::format(
          "const {0} from = ({0})((i64)part * {1} / {2}), to = ({0})((i64)(part + 1) * {1} / {2});",
          index_type(), split_size_, parts_));
      from = "from", to = "to";
    }
    inside[static_cast<size_t>(d)] = "x";
    if (traits_.is_cpu) {
      accumulate_chunks(code, inside, from, to);
    } else {
      code.open(fmt::format("for ({} x = {}{}; x < {}; x += {})", index_type(), from,
                            items_ > 1 ? " + LOCAL_ID(0)" : "", to, items_));
      code.line("const int v = 0;");
      element(code, inside);
      code.close();
    }
    for (int i = 0; i < opened; ++i) code.close();
    // Lanes, then items, join in halves.
    for (int64_t half = lanes_ / 2; half > 0; half /= 2) {
      code.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", half));
      join(code, "acc{0}[v]", "at{0}[v]", fmt::format("acc{{0}}[v + {}]", half),
           fmt::format("at{{0}}[v + {}]", half));
      code.close();
    }
    if (items_ > 1) {
      code.line(fmt::format("const int mine = LOCAL_ID(1) * {} + LOCAL_ID(0);", items_));
      for (size_t i = 0; i < reductions(); ++i) {
        code.line(fmt::format("shared{0}[mine] = acc{0}[0];", i));
        if (is_argmax(reduction(i))) code.line(fmt::format("shared_at{0}[mine] = at{0}[0];", i));
      }
      code.open(fmt::format("for (int reach = {}; reach > 0; reach /= 2)", items_ / 2));
      code.line("BARRIER();");
      code.open("if (LOCAL_ID(0) < reach)");
      join(code, "shared{0}[mine]", "shared_at{0}[mine]", "shared{0}[mine + reach]",
           "shared_at{0}[mine + reach]");
      code.close();
      code.close();
      code.line(fmt::format("if (LOCAL_ID(0) != 0 || result >= {}) return;", kept_size_));
      for (size_t i = 0; i < reductions(); ++i) {
        code.line(fmt::format("acc{0}[0] = shared{0}[mine];", i));
        if (is_argmax(reduction(i))) code.line(fmt::format("at{0}[0] = shared_at{0}[mine];", i));
      }
    }
    finish(code, "k", "0", index);
  }

  // What no element changes by it; beside an argmax the lowest value, for the first of equals wins.
  std::string neutral(const LoopReduction& r) const {
    return gpu::reduction_identity(is_argmax(r) ? LoopReduction{Prim::reduce_max, r.source, value_type(r)}
                                                : r);
  }

  // A row, a chunk after the other: the elements first, in one long loop, then their reduction. Compilers for
  // CPUs make vectors of either loop, but neither of both in one nor of an accumulator that is found by a
  // variable index: so what is missing to whole lanes is filled up. (Rows of 1000: four times as fast, and
  // seven times where the body stores.)
  void accumulate_chunks(Code& code, const Names& index, const std::string& from,
                         const std::string& to) const {
    const int64_t chunk = std::min<int64_t>(ceil_div(inner_, lanes_) * lanes_, longest_chunk);
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
    code.open(lane_loop());
    code.line(fmt::format("const {} x = j + u + v;", index_type()));
    accumulate(code, index, [](size_t i) { return fmt::format("chunk{}[u + v]", i); });
    code.close();
    code.close();
    code.close();
  }

  // Combines accumulators pairwise; the names take a reduction's number.
  void join(Code& code, const std::string& a, const std::string& a_at, const std::string& b,
            const std::string& b_at) const {
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      const std::string to = fmt::format(fmt::runtime(a), i), from = fmt::format(fmt::runtime(b), i);
      if (is_argmax(r))
        take_larger(code, r, to, fmt::format(fmt::runtime(a_at), i), from,
                    fmt::format(fmt::runtime(b_at), i));
      else
        code.line(fmt::format("{} = {};", to, gpu::combine(r, to, from)));
    }
  }

  // Where partial results lie in the scratch memory: [reduction][part][result].
  struct Partial {
    int64_t values = 0, indices = -1;  // bytes
  };
  std::vector<Partial> partials() {
    std::vector<Partial> places;
    int64_t bytes = 0;
    const auto take = [&](DType type) {
      const int64_t at = bytes;
      bytes += ceil_div(parts_ * kept_size_ * static_cast<int64_t>(size_of(type)), 64) * 64;
      return at;
    };
    for (size_t i = 0; i < reductions(); ++i) {
      places.push_back({take(value_type(reduction(i))), -1});
      if (is_argmax(reduction(i))) places.back().indices = take(DType::i64);
    }
    result_.scratch_bytes = static_cast<size_t>(bytes);
    return places;
  }
  static std::string scratch(DType type, int64_t bytes) {
    return fmt::format("((GLOBAL {}*)(scratch + {}))", language_name(type), bytes);
  }

  // What follows for one result (accumulators of `lane`): the epilogue, or the partial result.
  void finish(Code& code, const std::string& result, const std::string& lane, const Names& index) {
    if (parts_ > 1) {
      const auto places = partials();
      code.line(fmt::format("const i64 place = (i64)part * {} + {};", kept_size_, result));
      for (size_t i = 0; i < reductions(); ++i) {
        const LoopReduction& r = reduction(i);
        code.line(fmt::format("{}[place] = acc{}[{}];", scratch(value_type(r), places[i].values), i, lane));
        if (is_argmax(r))
          code.line(fmt::format("{}[place] = at{}[{}];", scratch(DType::i64, places[i].indices), i, lane));
      }
      return;
    }
    epilogue(code, lane, index);
  }

  void epilogue(Code& code, const std::string& lane, const Names& index) const {
    Names outside = index;  // index 0 along reduced dimensions
    for (int d : reduced_) outside[static_cast<size_t>(d)].clear();
    const auto first = static_cast<int>(program_.body.size());
    // Registers of the body that are read here mean the body at index 0 along reduced dimensions.
    const auto in_body = [&](int r) { return r >= 0 && r < first; };
    const bool reads_body =
        std::ranges::any_of(
            program_.epilogue,
            [&](const LoopStep& e) { return in_body(e.a) || in_body(e.b) || in_body(e.c); }) ||
        std::ranges::any_of(program_.epilogue_stores, [&](const LoopStore& e) { return in_body(e.source); });
    if (reads_body) gpu::emit_steps(code, program_, program_.body, 0, outside);
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      code.line(fmt::format("const {} r{} = {}{}[{}];", language_name(r.type), first + static_cast<int>(i),
                            is_argmax(r) ? "at" : "acc", i, lane));
    }
    gpu::emit_steps(code, program_, program_.epilogue, first + static_cast<int>(reductions()), outside);
    gpu::emit_stores(code, program_, program_.epilogue_stores, outside);
  }

  // The second launch of a split reduction: a work-item a result.
  void join_parts() {
    const auto places = partials();
    Code code;
    begin_kernel(code, "join", true);
    GpuLaunch launch;
    const int64_t wide =
        std::min<int64_t>(std::min<int64_t>(group_limit(), 256), power_of_two(2 * kept_size_ - 1));
    launch.name = "join";
    launch.group_size = {wide, 1, 1};
    launch.groups = {ceil_div(kept_size_, wide), 1, 1};
    code.line(fmt::format("const {0} k = ({0})GLOBAL_ID(0);", index_type()));
    code.line(fmt::format("if (k >= {}) return;", kept_size_));
    Names index(program_.space.size());
    unfold(code, "k", kept_, index);
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      code.line(fmt::format("{} acc{}[1] = {{{}[k]}};", value_name(r), i,
                            scratch(value_type(r), places[i].values)));
      if (is_argmax(r))
        code.line(fmt::format("i64 at{}[1] = {{{}[k]}};", i, scratch(DType::i64, places[i].indices)));
    }
    code.open(fmt::format("for (int part = 1; part < {}; ++part)", parts_));
    code.line(fmt::format("const i64 place = (i64)part * {} + k;", kept_size_));
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      code.line(fmt::format("const {} v{} = {}[place];", value_name(r), i,
                            scratch(value_type(r), places[i].values)));
      if (is_argmax(r))
        code.line(fmt::format("const i64 w{} = {}[place];", i, scratch(DType::i64, places[i].indices)));
    }
    join(code, "acc{0}[0]", "at{0}[0]", "v{0}", "w{0}");
    code.close();
    epilogue(code, "0", index);
    code.close();
    launch.source = code.text();
    launch.arguments = arguments(true);
    result_.launches.push_back(std::move(launch));
  }

  // ---- both ----

  void begin_kernel(Code& code, const std::string& name, bool with_scratch = false) const {
    const auto types = gpu::buffer_types(program_);
    std::string parameters;
    for (size_t b = 0; b < types.size(); ++b)
      parameters += fmt::format("{}BUFFER(STORED({}), m{})", b == 0 ? "" : ", ", language_name(types[b]), b);
    if (with_scratch) parameters += std::string(types.empty() ? "" : ", ") + "BUFFER(u8, scratch)";
    code.open(fmt::format("KERNEL void {}({})", name, parameters));
    for (size_t b = 0; b < types.size(); ++b)
      code.line(fmt::format("BIND(STORED({}), m{});", language_name(types[b]), b));
    if (with_scratch) code.line("BIND(u8, scratch);");
  }

  std::vector<GpuLaunch::Argument> arguments(bool with_scratch) const {
    std::vector<GpuLaunch::Argument> all;
    for (int b = 0; b < program_.buffers + (with_scratch ? 1 : 0); ++b) all.push_back({b, 0});
    return all;
  }

  const LoopProgram& program_;
  const GpuTraits& traits_;
  std::vector<DType> types_;
  std::vector<int> kept_, reduced_;
  int64_t kept_size_ = 1, reduced_size_ = 1;
  bool wide_ = false;  // indices need 64 bits
  // The shape of a reduction:
  bool rows_ = false;
  int64_t inner_ = 1, lanes_ = 1, items_ = 1, rows_per_group_ = 1, columns_ = 1, parts_ = 1, split_size_ = 1;
  GpuCandidate result_;
};

bool uses_f64(const LoopProgram& program) {
  const auto types = gpu::register_types(program);
  return std::find(types.begin(), types.end(), DType::f64) != types.end();
}

}  // namespace

std::vector<GpuCandidate> gpu_loop_candidates(const LoopProgram& program, const GpuTraits& traits) {
  const LoopProgram simple = simplify(program);
  if (!traits.f64 && uses_f64(simple))
    throw Error(ErrorCode::device, "this device has no f64 arithmetic", {}, "Use f32, or another device");
  std::vector<GpuCandidate> all;
  all.push_back(LoopKernels(simple, traits).run());
  return all;
}

}  // namespace athanor
