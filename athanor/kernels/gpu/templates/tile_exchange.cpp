// From the registers of NVIDIA's matrix units to memory, by lanes that exchange elements (lane_exchange.h):
// each stores up to 16 bytes at once, and reads up to 16 bytes of an epilogue's operand at once.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "athanor/kernels/gpu/templates/lane_exchange.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

constexpr int64_t pair = 2, eight = 8;  // columns of a lane, and of its row's four lanes

}  // namespace

/// The pairs of columns that a lane stores together, a power of two; 1: it exchanges none.
int64_t TileKernel::exchanged(bool splits) const {
  using Form = MatrixUnit::Form;
  if (!unit_.exchanges_lanes() || (unit_.form != Form::mma && unit_.form != Form::wgmma)) return 1;
  if (column_.stride() != 1 || !column_.stores_all()) return 1;
  int64_t largest = 0;
  for (const DType type : stored_types(splits)) {
    const auto size = static_cast<int64_t>(size_of(type));
    if (size != 2 && size != 4) return 1;
    largest = std::max(largest, size);
  }
  int64_t pairs = largest == 0 ? 1 : 4;
  const auto is_whole = [&] {
    return pairs * pair * largest <= 16 && wave_n() % (pairs * eight) == 0 &&
           begins_at(pairs * pair, largest, splits);
  };
  while (pairs > 1 && !is_whole()) pairs /= 2;
  return pairs;
}

/// Elements that are computed and stored together: at the same place in several eights or, if sums are
/// exchanged first, in one.
struct TileKernel::Chunk {
  std::string id, j;
  int element;
};

/// Names a chunk's part in one of the eights.
std::string TileKernel::part_of(const Chunk& chunk, int64_t eights) {
  return fmt::format("{}_{}", chunk.id, eights);
}

std::string TileKernel::sum_of(const Chunk& chunk, int64_t eights, int64_t r) const {
  const std::string sums = fmt::format("sums[{}]", rows().index());
  if (unit_.n == eight) return fmt::format("{}[{}][{}]", sums, plus(chunk.j, eights), chunk.element + r);
  return fmt::format("{}[{}][{}]", sums, chunk.j, chunk.element + 2 * pair * eights + r);
}

std::string TileKernel::row_of(const Chunk& chunk) const { return row_at(unit_.c.at(0, chunk.element).row); }

/// `begin`: column_begin, or wide_begin after an exchange.
std::string TileKernel::column_of(const Chunk& chunk, const char* begin, int64_t eights) const {
  return plus(plus(begin, times(chunk.j, unit_.n)), unit_.c.at(0, chunk.element).column + eights * eight);
}

/// Exchanges sums, then computes the epilogue of each lane's run.
void TileKernel::store_exchanged_sums(const Chunk& chunk, int64_t pairs, DType type) {
  const std::string values = "sums_" + chunk.id;
  std::string list;
  for (int64_t f = 0; f < pairs; ++f)
    for (int64_t r = 0; r < pair; ++r)
      list += fmt::format("{}{}({})", list.empty() ? "" : ", ",
                          unit_.output == DType::i32 ? "(u32)" : "BITS_OF_F32", sum_of(chunk, f, r));
  code_.line(fmt::format("u32 {}[{}] = {{{}}};", values, pairs * pair, list));
  exchange_pairs(code_, values, pairs, pair);
  const std::string row = "row_" + chunk.id, column = fmt::format("column_{}_0", chunk.id);
  std::vector<std::string> results;
  for (int64_t r = 0; r < pairs * pair; ++r)
    results.push_back(
        finished(part_of(chunk, 0), r,
                 fmt::format("{}({}[{}])", unit_.output == DType::i32 ? "(i32)" : "F32_OF_BITS", values, r),
                 row, column));
  const std::string inside = if_inside(row, column, false);
  if (!inside.empty()) code_.open(inside);
  store_run("out_" + chunk.id, "c", type, place_of(row, column), results, true);
  if (!inside.empty()) code_.close();
}

/// Computes the epilogue in the lanes that hold the elements, then exchanges its results.
void TileKernel::store_exchanged_results(const Chunk& chunk, int64_t pairs, bool splits) {
  const bool further = !splits && p_.epilogue.has_further_results();
  const std::vector<DType> types = stored_types(splits);
  const std::string row = "row_" + chunk.id;
  const auto registers_of = [](DType type) { return static_cast<int64_t>(size_of(type)) / pair; };
  const auto out = [&](size_t k) { return fmt::format("out_{}_{}", chunk.id, k); };
  for (size_t k = 0; k < types.size(); ++k)
    code_.line(fmt::format("u32x{0} {1} = (u32x{0})(0);", pairs * registers_of(types[k]), out(k)));
  for (int64_t f = 0; f < pairs; ++f) {
    const std::string column = fmt::format("column_{}_{}", chunk.id, f);
    const std::string inside = if_inside(row, column, splits);
    code_.open(inside);
    std::vector<std::string> values;
    for (int64_t r = 0; r < pair; ++r)
      values.push_back(splits ? sum_of(chunk, f, r)
                              : finished(part_of(chunk, f), r, sum_of(chunk, f, r), row, column));
    if (further) {
      for (int64_t r = 0; r < pair; ++r)
        code_.line(fmt::format("const Finished finished{} = {};", r, values[static_cast<size_t>(r)]));
      const bool in_unit = unit_.n > eight;
      add_terms(chunk.element + static_cast<int>(in_unit ? 2 * pair * f : 0),
                {index_along(row, column, 0), index_along(row, column, 1)}, 0, in_unit ? 0 : f);
    }
    for (size_t k = 0; k < types.size(); ++k) {
      if (further) values = {fmt::format("finished0.result{}", k), fmt::format("finished1.result{}", k)};
      for (int64_t r = 0; r < registers_of(types[k]); ++r)
        code_.line(fmt::format("{}[{}] = {};", out(k), f * registers_of(types[k]) + r,
                               register_of(types[k], values, r)));
    }
    code_.close();
  }
  for (size_t k = 0; k < types.size(); ++k) exchange_pairs(code_, out(k), pairs, registers_of(types[k]));
  const std::string column = "wide_" + chunk.id;
  const std::string inside = if_inside(row, column, splits);
  if (!inside.empty()) code_.open(inside);
  for (size_t k = 0; k < types.size(); ++k)
    code_.line(fmt::format("WRITE_EXCHANGED({}, {} + {}, {});", pairs * registers_of(types[k]),
                           further ? p_.epilogue.outputs()[k].name + " + c_first" : "c",
                           place_of(row, column), out(k)));
  if (!inside.empty()) code_.close();
}

void TileKernel::store_exchanged(bool splits, int64_t pairs) {
  const bool further = !splits && p_.epilogue.has_further_results();
  if (!splits) vectors_ = p_.epilogue.vectors(pairs * pair);
  const bool sums_first = !splits && !further && !vectors_.empty();
  if (!splits && !sums_first) vectors_ = p_.epilogue.vectors(pair);
  const LaneLayout wide = behind_exchange(unit_.c, pairs);
  const std::string wave = fmt::format("wave_n * {}", wave_n());
  code_.line(fmt::format("int row_begin = wave_m * {} + {}, column_begin = {} + {};", wave_m(),
                         lane_part(unit_.c, &LaneLayout::Cell::row), wave,
                         lane_part(unit_.c, &LaneLayout::Cell::column)));
  code_.line(fmt::format("int wide_begin = {} + {};", wave, lane_part(wide, &LaneLayout::Cell::column)));
  const int64_t sums = wave_m() * wave_n() / unit_.wave;
  // Otherwise the compiler computes places before the loop, and long epilogues spill registers.
  if (sums >= 128 && !splits && !p_.epilogue.empty())
    for (const char* begin : {"row_begin", "column_begin", "wide_begin"})
      code_.line(fmt::format("HIDDEN_LANE({});", begin));

  const int64_t units = wave_n() / unit_.n, units_together = unit_.n == eight ? pairs : 1;
  terms_together_ = further ? units_together : 1;
  const bool turned = reduces() && reduces_rows_alone();  // the loop over columns is the outer one
  if (reduces() && reduces_all()) declare_terms();
  open(turned ? columns() : rows());
  if (further) code_.line(fmt::format("HIDDEN_LANE({}_begin);", turned ? "row" : "column"));
  if (reduces() && !reduces_all()) declare_terms();
  if (turned) open(rows());

  std::vector<Chunk> chunks;
  for (int64_t j = 0; j < (turned ? 1 : units); j += units_together)
    for (int e = 0; e < unit_.c.elements; e += pair) {
      if (unit_.n > eight && e / (2 * pair) % pairs != 0) continue;  // it belongs to another chunk
      chunks.push_back({fmt::format("{}_{}", j, e), turned ? columns().index() : std::to_string(j), e});
    }
  // The operands of several chunks are read first, so that their reads overlap: a compiler does not move a
  // read before a store that may change the value.
  int64_t registers = 0;
  for (const ResultEpilogue::Vector& v : vectors_) registers += v.registers * (sums_first ? 1 : pairs);
  const int64_t most_waiting = sums < 128 ? 32 : 16;  // with more, there are not enough registers
  const auto together =
      static_cast<size_t>(registers == 0 ? 1 : std::max<int64_t>(1, most_waiting / registers));
  for (size_t first = 0; first < chunks.size(); first += together) {
    const std::span<const Chunk> some(chunks.data() + first, std::min(together, chunks.size() - first));
    code_.open("");
    for (const Chunk& chunk : some) {
      code_.line(fmt::format("const int row_{} = {};", chunk.id, row_of(chunk)));
      if (!sums_first)
        code_.line(fmt::format("const int wide_{} = {};", chunk.id, column_of(chunk, "wide_begin", 0)));
      for (int64_t f = 0; f < (sums_first ? 1 : pairs); ++f) {
        const std::string column = fmt::format("column_{}_{}", chunk.id, f);
        code_.line(fmt::format("const int {} = {};", column,
                               column_of(chunk, sums_first ? "wide_begin" : "column_begin", f)));
        if (!splits)
          read_vectors(part_of(chunk, f), "row_" + chunk.id, column,
                       if_inside("row_" + chunk.id, column, splits));
      }
    }
    for (const Chunk& chunk : some)
      sums_first ? store_exchanged_sums(chunk, pairs, p_.output)
                 : store_exchanged_results(chunk, pairs, splits);
    code_.close();
  }
  if (turned) code_.close();
  if (reduces() && !reduces_all()) store_terms();
  code_.close();
  if (reduces() && reduces_all()) store_terms();
  terms_together_ = 1;
}

}  // namespace athanor::gpu
