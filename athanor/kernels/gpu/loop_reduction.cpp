// Fused loops with reductions. Two shapes:
//   columns  the innermost dimension is kept: a work-item sums up `lanes` neighbouring columns.
//   rows     the innermost dimension is reduced: `items` work-items of a group share a row, or on CPUs one
//   does some
//            rows, in `lanes`.
// A reduction with few results is split into `parts` that a second launch joins.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_kernels.h"

namespace athanor::gpu {
namespace {

// A part of a split reduction walks at least this many elements: less is not worth a second launch.
constexpr int64_t least_part = 4096;
// On CPUs, elements of a row that are computed before they are reduced: they stay in the first cache.
constexpr int64_t longest_chunk = 1024;

class ReductionKernels : LoopKernels {
 public:
  using LoopKernels::LoopKernels;

  GpuCandidate run() {
    choose_shape();
    reduce();
    if (parts_ > 1) join_parts();
    return std::move(result_);
  }

 private:
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
      code.line(fmt::format("acc{}[v] = {};", i, is_argmax(r) ? "0" : reduction_identity(r)));
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
  // `source_of` gives what a reduction takes up.
  void accumulate(Code& code, const Names& index, const std::function<std::string(size_t)>& source_of) const {
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      const std::string acc = fmt::format("acc{}[v]", i), source = source_of(i);
      if (!is_argmax(r)) {
        code.line(fmt::format("{} = {};", acc, combine(r, acc, source)));
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
    return reduction_identity(is_argmax(r) ? LoopReduction{Prim::reduce_max, r.source, value_type(r)} : r);
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
        code.line(fmt::format("{} = {};", to, combine(r, to, from)));
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
    if (reads_body) emit_steps(code, program_, program_.body, 0, outside);
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      code.line(fmt::format("const {} r{} = {}{}[{}];", language_name(r.type), first + static_cast<int>(i),
                            is_argmax(r) ? "at" : "acc", i, lane));
    }
    emit_steps(code, program_, program_.epilogue, first + static_cast<int>(reductions()), outside);
    emit_stores(code, program_, program_.epilogue_stores, outside);
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

  // The shape:
  bool rows_ = false;
  int64_t inner_ = 1, lanes_ = 1, items_ = 1, rows_per_group_ = 1, columns_ = 1, parts_ = 1, split_size_ = 1;
};

}  // namespace

GpuCandidate reduction_kernels(const LoopProgram& program, const GpuTraits& traits) {
  return ReductionKernels(program, traits).run();
}

}  // namespace athanor::gpu
