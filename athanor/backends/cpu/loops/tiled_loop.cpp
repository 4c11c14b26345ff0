#include "athanor/backends/cpu/loops/tiled_loop.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "athanor/base/error.h"

namespace athanor::loops {
namespace {

using Form = TiledReduction::Form;

/// The order in which dimensions are walked, outermost first, and the first position that can be part of a
/// tile.
struct Walk {
  std::vector<size_t> order;
  size_t first_in_block = 0;
  Form form = Form::none;
  // loops keep this order: loops over kept dimensions may be inside loops over reduced ones
  bool memory_order = false;
};

int64_t product(const LoopProgram& p, const std::vector<size_t>& dims) {
  int64_t n = 1;
  for (size_t d : dims) n *= p.space[d];
  return n;
}

std::vector<size_t> concat(std::vector<size_t> a, const std::vector<size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Walk choose_walk(const LoopProgram& p) {
  constexpr int64_t long_row = 256, most_accumulators = 2048;
  std::vector<size_t> all, kept, reduced;
  for (size_t d = 0; d < p.space.size(); ++d) {
    all.push_back(d);
    (p.reduced[d] ? reduced : kept).push_back(d);
  }
  if (p.reductions.empty()) return {all, 0, Form::none, false};
  if (reduced.empty() || kept.empty()) return {all, 0, Form::rows, false};

  const int64_t kept_count = product(p, kept), reduced_count = product(p, reduced);
  const bool last_reduced = p.reduced.back();
  size_t run = p.space.size();  // the dimensions from here on are all reduced, or all kept
  while (run > 0 && p.reduced[run - 1] == last_reduced) --run;
  const std::vector<size_t> inner(all.begin() + static_cast<ptrdiff_t>(run), all.end());

  // Each result combines only a few elements (pooling windows): vectors run along the kept dimensions.
  if (reduced_count <= 64 && kept_count >= 64 &&
      (last_reduced ? p.space.back() <= 8 : product(p, inner) * reduced_count < long_row))
    return {concat(reduced, kept), 0, Form::columns, false};
  if (!last_reduced) {
    std::vector<size_t> outer_kept;
    for (size_t d : kept)
      if (d < run) outer_kept.push_back(d);
    return {concat(concat(outer_kept, reduced), inner), outer_kept.size(), Form::columns, false};
  }
  // Rows inside an outer reduced dimension ([N, C, HW] over N and HW): memory order streams through memory,
  // but needs accumulators for all kept indices inside.
  const size_t first_reduced = reduced.front();
  std::vector<size_t> inner_kept;
  for (size_t d : kept)
    if (d > first_reduced) inner_kept.push_back(d);
  if (!inner_kept.empty() && product(p, inner_kept) <= most_accumulators) {
    size_t first = run;  // within a tile: kept rows of reduced elements
    while (first > 0 && !p.reduced[first - 1]) --first;
    return {all, first, Form::rows, true};
  }
  return {concat(kept, reduced), 0, Form::rows, false};
}

/// The tiling of a unit's kept indices: loops over units, then a block of all other kept indices.
Tiling make_epilogue_tiling(const LoopProgram& p, const Walk& walk, const Tiling& tiling, size_t unit_loops) {
  Tiling t;
  t.loops.assign(tiling.loops.begin(), tiling.loops.begin() + static_cast<ptrdiff_t>(unit_loops));
  for (size_t d : walk.order) {
    if (p.reduced[d]) continue;
    const auto loop = std::find_if(t.loops.begin(), t.loops.end(), [&](const Loop& l) { return l.dim == d; });
    if (loop == t.loops.end()) {
      t.block.push_back({d, p.space[d]});
      t.row_size *= p.space[d];
    } else if (loop->cut) {
      t.block.insert(t.block.begin(), {d, loop->step});
      t.cut = static_cast<int>(loop - t.loops.begin());
      t.cut_extent = tiling.cut_extent;
      t.rows = tiling.rows;
    }
  }
  return t;
}

uint64_t bits_of(DType type, double value) {
  if (type == DType::f64) return std::bit_cast<uint64_t>(value);
  if (type == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

uint64_t identity_of(Prim prim, DType type) {
  if (prim == Prim::sum) return 0;
  if (prim == Prim::prod) return bits_of(type, 1);
  const bool lowest = prim != Prim::reduce_min;
  switch (type) {
    case DType::i64:
      return lowest ? uint64_t{1} << 63 : ~(uint64_t{1} << 63);
    case DType::i32:
      return lowest ? 0x80000000 : 0x7fffffff;
    case DType::i8:
      return lowest ? 0x80 : 0x7f;
    case DType::u8:
      return lowest ? 0 : 0xff;
    case DType::b8:
      return lowest ? 0 : 1;
    default:
      break;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return bits_of(type, lowest ? -infinity : infinity);
}

/// The strides of a row-major index over the reduced dimensions.
Ints reduced_index_strides(const LoopProgram& p) {
  Ints strides(p.space.size());
  int64_t stride = 1;
  for (size_t d = p.space.size(); d-- > 0;) {
    if (!p.reduced[d]) continue;
    strides[d] = stride;
    stride *= p.space[d];
  }
  return strides;
}

class LoopTiler {
 public:
  explicit LoopTiler(LoopProgram program) { loop_.program = std::move(program); }

  TiledLoop make() {
    int64_t kept = 1, reduced = 1;
    for (size_t d = 0; d < p_.space.size(); ++d) (p_.reduced[d] ? reduced : kept) *= p_.space[d];
    loop_.nothing = kept == 0 || (reduced == 0 && p_.reductions.empty());
    loop_.no_elements = reduced == 0;
    walk_ = choose_walk(p_);
    // All registers in use must fit the L1 cache; their number is known after lowering.
    int64_t tile = 1024;
    lower(tile);
    while (tile > 256 && loop_.code.tile_bytes * tile > l1_bytes) tile /= 2;
    if (tile != 1024) lower(tile);
    place_scratch();
    const double elements = static_cast<double>(loop_.tiling.tiles() * loop_.tiling.tile_size());
    loop_.cost_ns = elements * (loop_.code.cost_ns + 0.08 * static_cast<double>(p_.reductions.size()));
    return std::move(loop_);
  }

 private:
  static constexpr int64_t l1_bytes = 28 * 1024;

  void lower(int64_t tile) {
    // The end of a row's reduction takes as long as some hundred elements, so several rows share one.
    const int64_t long_row = walk_.form == Form::rows && !walk_.memory_order ? 512 : 256;
    loop_.tiling = make_tiling(p_.space, walk_.order, walk_.first_in_block, tile, long_row);
    loop_.reduce = {};
    loop_.reduce.form = walk_.form;
    if (walk_.form == Form::none) follow_strided_operands(loop_.tiling, p_.operands);
    if (walk_.form != Form::none && !walk_.memory_order) kept_loops_first(loop_.tiling, p_.reduced);
    lower_body();
    if (walk_.form != Form::none) lower_epilogue();
  }

  void lower_body() {
    CodeBuilder lowering(loop_.tiling);
    std::vector<int> values;
    for (const LoopStep& s : p_.body) values.push_back(lowering.step(s, p_.operands, values));
    std::vector<size_t> wishes;
    for (const LoopReduction& r : p_.reductions) {
      const int source = values[static_cast<size_t>(r.source)];
      Accumulator rp;
      rp.type = lowering.type(source);
      rp.fns = find_reduce(r.prim, rp.type);
      rp.identity = identity_of(r.prim, rp.type);
      rp.wide_identity = identity_of(r.prim, rp.fns.wide);
      loop_.reduce.reductions.push_back(rp);
      const bool products = rp.fns.accumulate_product != nullptr;
      wishes.push_back(products ? lowering.keep_product(source) : lowering.keep(source));
      if (r.prim == Prim::argmax) lowering.keep(lowering.index(0, reduced_index_strides(p_)));
    }
    for (const LoopStore& s : p_.stores)
      lowering.store(values[static_cast<size_t>(s.source)], p_.operands[static_cast<size_t>(s.operand)]);
    const int place = walk_.form == Form::rows ? lowering.walker(place_in_unit()) : -1;
    loop_.code = lowering.finish(place);
    loop_.reduce.place_walker = lowering.walker_position(place);
    for (size_t i = 0; i < p_.reductions.size(); ++i) {
      Accumulator& rp = loop_.reduce.reductions[i];
      rp.source = lowering.kept_register(wishes[i]);
      rp.factor = lowering.factor_register(wishes[i]);
      if (p_.reductions[i].prim == Prim::argmax) rp.index = lowering.kept_register(wishes[i] + 1);
    }
  }

  size_t unit_loops() const {
    const auto& loops = loop_.tiling.loops;
    return static_cast<size_t>(
        std::find_if(loops.begin(), loops.end(), [&](const Loop& l) { return p_.reduced[l.dim]; }) -
        loops.begin());
  }

  /// Walks the kept indices within a unit, in the order of the epilogue's tiles.
  Walker place_in_unit() const {
    Ints strides(p_.space.size());
    int64_t stride = 1;
    for (size_t i = walk_.order.size(); i-- > 0;) {
      const size_t d = walk_.order[i];
      if (p_.reduced[d]) continue;
      strides[d] = stride;
      stride *= p_.space[d];
    }
    for (size_t l = 0; l < unit_loops(); ++l) strides[loop_.tiling.loops[l].dim] = 0;
    return make_walker(loop_.tiling, -1, 1, 0, strides);
  }

  void lower_epilogue() {
    TiledReduction& r = loop_.reduce;
    const Tiling& t = loop_.tiling;
    const size_t outer = unit_loops();
    loop_.epilogue_tiling = make_epilogue_tiling(p_, walk_, t, outer);
    r.kept_rows = loop_.epilogue_tiling.cut >= 0;
    r.kept = loop_.epilogue_tiling.row_size;
    r.units = r.tiles_per_unit = 1;
    for (size_t l = 0; l < t.loops.size(); ++l) (l < outer ? r.units : r.tiles_per_unit) *= t.loops[l].extent;
    r.tiles_per_step =
        walk_.memory_order && outer < t.loops.size() ? r.tiles_per_unit / t.loops[outer].extent : 1;
    r.row_length = 1;
    for (const Tiling::Dim& b : t.block)
      if (p_.reduced[b.dim]) r.row_length *= b.extent;
    if (t.cut >= 0 && p_.reduced[t.block.front().dim]) r.row_length = 0;
    r.pieces = choose_pieces();

    CodeBuilder lowering(loop_.epilogue_tiling);
    // Body registers that the epilogue uses are computed again, at index 0 of the reduced dimensions.
    std::vector<LoopOperand> operands = p_.operands;
    for (LoopOperand& o : operands) clear_reduced(o.strides);
    std::vector<LoopStep> steps = p_.body;
    std::vector<int> values;
    for (LoopStep& s : steps) {
      if (s.kind == LoopStep::Kind::index) clear_reduced(s.index_strides);
      values.push_back(lowering.step(s, operands, values));
    }
    std::vector<int> results;
    for (const LoopReduction& red : p_.reductions) {
      results.push_back(lowering.external(red.type));
      values.push_back(results.back());
    }
    for (LoopStep s : p_.epilogue) {
      if (s.kind == LoopStep::Kind::index) clear_reduced(s.index_strides);
      values.push_back(lowering.step(s, operands, values));
    }
    for (const LoopStore& s : p_.epilogue_stores)
      lowering.store(values[static_cast<size_t>(s.source)], operands[static_cast<size_t>(s.operand)]);
    loop_.epilogue = lowering.finish(-1);
    for (size_t i = 0; i < results.size(); ++i) {
      Accumulator& rp = r.reductions[i];
      rp.result = lowering.external_register(results[i]);
      const DType result = p_.reductions[i].type;
      const DType wide = p_.reductions[i].prim == Prim::argmax ? DType::i64 : rp.fns.wide;
      if (wide != result) rp.narrow = find_step(Opcode::cast, wide, result);
    }
  }

  void clear_reduced(Ints& strides) const {
    for (size_t d = 0; d < strides.size(); ++d)
      if (p_.reduced[d]) strides[d] = 0;
  }

  /// Splits a few units with much work, for threads, into pieces of at least 32K elements.
  int64_t choose_pieces() const {
    constexpr int64_t enough_units = 16, piece = 32 * 1024;
    const TiledReduction& r = loop_.reduce;
    if (r.units >= enough_units) return 1;
    const int64_t steps = r.tiles_per_unit / r.tiles_per_step;
    const int64_t wanted = (enough_units + r.units - 1) / r.units;
    return std::clamp<int64_t>(p_.iterations() / r.units / piece, 1, std::min(wanted, steps));
  }

  void place_scratch() {
    int64_t at = loop_.code.scratch_bytes;
    const auto place = [&](int64_t bytes) {
      const int64_t here = at;
      at += (bytes + 63) / 64 * 64 + 192;  // see CodeBuilder::allocate
      return here;
    };
    TiledReduction& r = loop_.reduce;
    const int64_t kept = r.kept * (r.kept_rows ? loop_.epilogue_tiling.rows : 1);
    const int64_t tile = loop_.tiling.tile_size();
    for (size_t i = 0; i < r.reductions.size(); ++i) {
      Accumulator& rp = r.reductions[i];
      const bool columns = r.form == Form::columns;
      const int64_t wide = columns ? tile : kept;
      if (columns && rp.fns.flush != nullptr)
        rp.running = place(tile * static_cast<int64_t>(size_of(rp.type)));
      rp.wide = place(wide * static_cast<int64_t>(size_of(rp.fns.wide)));
      if (rp.index >= 0) rp.indices = place(wide * 8);
      rp.narrowed = place(kept * static_cast<int64_t>(size_of(p_.reductions[i].type)));
      r.partial_bytes += (kept * static_cast<int64_t>(size_of(rp.fns.wide)) + 63) / 64 * 64;
      if (rp.index >= 0) r.partial_bytes += (kept * 8 + 63) / 64 * 64;
    }
    loop_.epilogue_scratch = at;
    loop_.scratch_bytes = at + loop_.epilogue.scratch_bytes;
  }

  TiledLoop loop_;
  const LoopProgram& p_ = loop_.program;
  Walk walk_;
};

}  // namespace

TiledLoop tile_loop(LoopProgram program) {
  program = simplify_loop(std::move(program));
  for (size_t i = 0; i < program.reductions.size(); ++i) {
    const LoopReduction& r = program.reductions[i];
    const DType type = program.body[static_cast<size_t>(r.source)].type;
    if (!is_reduction(r.prim) || find_reduce(r.prim, type).fold_rows == nullptr)
      throw Error(ErrorCode::dtype, "'" + std::string(to_string(r.prim)) +
                                        "' has no meaning as a reduction of " + std::string(to_string(type)));
  }
  return LoopTiler(std::move(program)).make();
}

}  // namespace athanor::loops
