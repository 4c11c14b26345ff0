// From the registers of matrix units to memory: C's elements with the epilogue, or the parts of a split
// product and their sum.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/lane_exchange.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

/// Elements of a lane that lie in memory one after another, if C's rows or columns do.
int64_t run_of(const LaneLayout& layout, int LaneLayout::Cell::*along) {
  int64_t run = 1;
  for (const LaneLayout::Cell& step : layout.element) {
    if (step.*along != run || run >= layout.elements) break;
    run *= 2;
  }
  return run;
}

}  // namespace

bool unit_stores_rows(const MatrixUnit& unit) {
  return run_of(unit.c, &LaneLayout::Cell::row) > run_of(unit.c, &LaneLayout::Cell::column);
}

bool stores_eight(const TileProblem::Result& c, const TileAxis& along, const TileAxis& across) {
  constexpr int64_t eight = 8, bytes = 16;
  return along.stride() == 1 && along.stores_all() && along.has_whole(eight) &&
         along.strides_divide_by(eight, true) && across.strides_divide_by(eight, false) &&
         c.batch % eight == 0 && c.memory.byte_offset % bytes == 0;
}

bool TileKernel::exchanges_halves(bool splits) const {
  if (!unit_.interleaves_halves()) return false;
  const TileProblem::Result result =
      splits ? TileProblem::Result{{0, static_cast<int64_t>(p_.scratch_start)}, p_.m * p_.n, row_, column_}
             : p_.c;
  return stores_eight(result, row_, column_);
}

/// Register r of several results. It holds one or two of them.
std::string TileKernel::register_of(DType type, const std::vector<std::string>& values, int64_t r) {
  const auto first = static_cast<size_t>(r * 4) / size_of(type);
  return type == DType::i32 ? fmt::format("(u32)({})", values[first])
         : size_of(type) == 4
             ? fmt::format("BITS_OF_F32({})", values[first])
             : fmt::format("PACKED({}, {}, {})", language_name(type), values[first], values[first + 1]);
}

/// Whether a fence comes before the next elements that are stored together. Units of lanes have no registers
/// for the steps of two. On RDNA a round's results wait for each other, and Clang loads meanwhile what the
/// next round reads: without a fence, the loads of both must have room beside the sums.
bool TileKernel::fences_epilogue(int64_t run) const {
  if (unit_.of_lanes()) return p_.epilogue.has_further_results();
  const int64_t loads = unit_.c.elements * std::ssize(p_.epilogue.parameters());
  return unit_.form == MatrixUnit::Form::wmma && run > 1 && held_sums() + 2 * loads > most_in_use;
}

/// The types in which each element is stored.
std::vector<DType> TileKernel::stored_types(bool splits) const {
  if (splits) return {unit_.output};
  if (!p_.epilogue.has_further_results()) return {p_.output};
  std::vector<DType> types;
  for (const ResultEpilogue::Output& output : p_.epilogue.outputs()) types.push_back(output.type);
  return types;
}

/// Whether each v neighbours in C's memory are in one row or column of it, and begin at a multiple of v
/// elements.
bool TileKernel::begins_at(int64_t v, int64_t size, bool splits) const {
  const TileAxis &along = this->along(), &across = &along == &row_ ? column_ : row_;
  const int64_t first = splits ? static_cast<int64_t>(p_.scratch_start) : p_.c.memory.byte_offset;
  return along.has_whole(v) && along.strides_divide_by(v, true) && across.strides_divide_by(v, false) &&
         first % (v * size) == 0 && (splits || p_.c.batch % v == 0);
}

/// Stores at once several results of a lane that lie together in memory.
void TileKernel::store_run(const std::string& out, const std::string& to, DType type, const std::string& at,
                           const std::vector<std::string>& values, bool exchanged) {
  const auto size = static_cast<int64_t>(size_of(type)), registers = std::ssize(values) * size / 4;
  code_.line(fmt::format("{} {};", registers == 1 ? "u32" : fmt::format("u32x{}", registers), out));
  for (int64_t r = 0; r < registers; ++r) {
    code_.line(fmt::format("{} = {};", registers == 1 ? out : fmt::format("{}[{}]", out, r),
                           register_of(type, values, r)));
  }
  code_.line(fmt::format("{}({}, {} + {}, {});", exchanged ? "WRITE_EXCHANGED" : "WRITE_GLOBAL", registers,
                         to, at, out));
}

/// Stores and reduces a run of elements with further results.
void TileKernel::store_further(int64_t element, const std::string& at, const std::vector<std::string>& values,
                               const std::vector<std::string>& indices) {
  const int64_t run = std::ssize(values);
  for (int64_t r = 0; r < run; ++r)
    code_.line(fmt::format("const Finished finished{} = {};", element + r, values[static_cast<size_t>(r)]));
  const auto outputs = p_.epilogue.outputs();
  for (size_t k = 0; k < outputs.size(); ++k) {
    std::vector<std::string> members;
    for (int64_t r = 0; r < run; ++r) members.push_back(fmt::format("finished{}.result{}", element + r, k));
    const std::string place = fmt::format("c_first + {}", at);
    if (run == 1)
      code_.line(fmt::format("STORE({}, {}, {}, {});", language_name(outputs[k].type), outputs[k].name, place,
                             members[0]));
    else
      store_run(fmt::format("out{}_{}", element, k), outputs[k].name, outputs[k].type, place, members);
  }
  add_terms(static_cast<int>(element), indices, element);
}

void TileKernel::store_result(bool splits) {
  const bool further = !splits && p_.epilogue.has_further_results();
  if (const int64_t pairs = exchanged(splits); pairs > 1) return store_exchanged(splits, pairs);
  const DType type = splits ? unit_.output : p_.output;
  int64_t size = static_cast<int64_t>(size_of(type)), smallest = size;
  for (const DType stored : stored_types(splits)) {
    size = std::max(size, static_cast<int64_t>(size_of(stored)));
    smallest = std::min(smallest, static_cast<int64_t>(size_of(stored)));
  }
  const bool halves = exchanges_halves(splits);
  const LaneLayout& c = c_ = halves ? behind_halves(unit_.c) : unit_.c;
  const TileAxis& along = this->along();
  // Neighbours are stored together, in runs that all begin at a multiple of their length.
  int64_t run = 1;
  if (along.stride() == 1 && along.stores_all())
    run = std::min<int64_t>(run_of(c, &along == &row_ ? &LaneLayout::Cell::row : &LaneLayout::Cell::column),
                            16 / size);
  while (run > 1 && !begins_at(run, size, splits)) run /= 2;
  if (run * smallest < 4) run = 1;
  // With vectors of operands, lanes' kernels compute their places early and take more registers.
  if (!splits)
    vectors_ =
        run > 1 && !unit_.of_lanes() ? p_.epilogue.vectors(run) : std::vector<ResultEpilogue::Vector>{};

  if (halves)
    each_unit([&](const std::string& sums) { exchange_halves(code_, sums, unit_.output == DType::f32); });
  // Otherwise Clang moves products of elements that may lie beyond an edge to their stores, and keeps all
  // their factors in registers until then.
  const bool has_edges = ragged_m() || ragged_n() || !row_.stores_all() || !column_.stores_all();
  const bool finishes = !splits && !p_.epilogue.empty();
  if ((unit_.of_lanes() || unit_.form == MatrixUnit::Form::wmma) && (has_edges || finishes))
    each_unit([&](const std::string& sums) {
      code_.line(unit_.of_lanes() ? fmt::format("UNROLL for (int e = 0; e < {}; ++e) {}({}[e]);", c.elements,
                                                hidden_sum(), sums)
                                  : fmt::format("HIDDEN_VECTOR({});", sums));
    });
  code_.line(fmt::format("int row_begin = wave_m * {} + {}, column_begin = wave_n * {} + {};", wave_m(),
                         lane_part(c, &LaneLayout::Cell::row), wave_n(),
                         lane_part(c, &LaneLayout::Cell::column)));
  if (reduces() && reduces_all()) declare_terms();
  const bool fenced = !splits && fences_epilogue(run);
  const bool turned = reduces() && reduces_rows_alone();  // the loop over columns is the outer one
  open(turned ? columns() : rows());
  // Otherwise the compiler keeps from one round to the next where elements lie, in lanes' registers, and
  // which lie inside, in scalar registers: more than there are.
  if (further) code_.line(fmt::format("HIDDEN_LANE({}_begin);", turned ? "row" : "column"));
  if (reduces() && !reduces_all()) declare_terms();
  open(turned ? rows() : columns());
  for (int e = 0; e < c.elements; e += static_cast<int>(run)) {
    if (fenced) code_.line("SCHEDULE_FENCE();");
    const LaneLayout::Cell first = c.at(0, e);
    const std::string row = fmt::format("row{}", e), column = fmt::format("column{}", e);
    code_.line(
        fmt::format("const int {} = {}, {} = {};", row, row_at(first.row), column, column_at(first.column)));
    const std::string inside = if_inside(row, column, splits), at = place_of(row, column);
    if (!inside.empty()) code_.open(inside);
    const std::string id = std::to_string(e);
    if (!splits) read_vectors(id, row, column, "");
    std::vector<std::string> values, indices;
    for (int64_t r = 0; r < run; ++r) {
      indices.push_back(index_along(row, column, r));
      const std::string sum = fmt::format("sums[{}][{}][{}]", rows().index(), columns().index(), e + r);
      values.push_back(splits ? sum : finished(id, r, sum, row, column));
    }
    if (further)
      store_further(e, at, values, indices);
    else if (run == 1)
      code_.line(fmt::format("STORE({}, c, {}, {});", language_name(type), at, values[0]));
    else
      store_run(fmt::format("out{}", e), "c", type, at, values);
    if (!inside.empty()) code_.close();
  }
  code_.close();
  if (reduces() && !reduces_all()) store_terms();
  code_.close();
  if (reduces() && reduces_all()) store_terms();
}

std::optional<ResultEpilogue::Finish> TileKernel::loop_over_parts() const {
  const int64_t all = p_.m * p_.n;
  const bool as_c = p_.c.row.even() && p_.c.column.even() && p_.c.row.stride() == row_.stride() &&
                    p_.c.column.stride() == column_.stride() && (p_.batch == 1 || p_.c.batch == all);
  std::vector<ResultEpilogue::Digit> digits;
  if (as_c) {
    digits = {{1, p_.batch * all, 1}};
  } else {
    digits = {{p_.c.batch, p_.batch, all}};
    for (const auto& [axis, part] : {std::pair{&p_.c.row, &row_}, {&p_.c.column, &column_}}) {
      int64_t below = part->stride();
      for (size_t d = axis->digits().size(); d-- > 0;) {
        const auto& [extent, stride] = axis->digits()[d];
        const bool innermost = d + 1 == axis->digits().size();
        digits.push_back({stride, innermost ? std::min(extent, axis->stored()) : extent, below});
        below *= extent;
      }
    }
    std::erase_if(digits, [](const auto& digit) { return digit.stride == 0 || digit.extent == 1; });
  }
  return p_.epilogue.over_parts(point_.splits, p_.batch * all, digits);
}

GpuLaunch TileKernel::sum(GpuLaunch::Argument parts, const GpuTraits& traits) const {
  // The elements are walked in the order in which the parts lie.
  const bool rows_inside = column_.stride() != 1;
  return add_parts(
      "sum_of_parts", {p_.batch, rows_inside ? p_.n : p_.m, rows_inside ? p_.m : p_.n}, parts, traits,
      [&](Code& code) {
        code.line(fmt::format("const i64 batch = dim0, row = dim{}, column = dim{};", rows_inside ? 2 : 1,
                              rows_inside ? 1 : 2));
      },
      [&](Code& code) {
        code.line(fmt::format("UNROLL for (int s = 0; s < {}; ++s) sum += parts[s * (i64){} + flat];",
                              point_.splits, p_.batch * p_.m * p_.n));
      });
}

GpuLaunch TileKernel::add_parts(const char* name, const Shape& extents, GpuLaunch::Argument parts,
                                const GpuTraits& traits, const std::function<void(Code&)>& find,
                                const std::function<void(Code&)>& add) const {
  std::vector<Parameter> parameters = {{"parts", fmt::format("const {}", sum_type(unit_)), parts}};
  std::ranges::copy(p_.epilogue.parameters(), std::back_inserter(parameters));
  parameters.push_back({"c", stored(p_.output), p_.c.memory});
  ElementKernel kernel(name, extents, parameters, traits);
  Code& code = kernel.code();
  find(code);
  for (const auto& [axis, at] : {std::pair{&p_.c.row, "row"}, {&p_.c.column, "column"}})
    if (!axis->stores_all())
      code.line(fmt::format("if ({} % {} >= {}) return;", at, axis->run(), axis->stored()));
  code.line(fmt::format("{} sum = 0;", sum_type(unit_)));
  add(code);
  const std::string at =
      p_.c.row.place("c_row_at", "row") + " + " + p_.c.column.place("c_column_at", "column");
  const int64_t first = p_.c.memory.byte_offset / static_cast<int64_t>(size_of(p_.output));
  code.line(fmt::format("const i64 place = batch * (i64){} + {};", p_.c.batch, at));
  code.line(fmt::format("STORE({}, c, place, {});", language_name(p_.output),
                        p_.epilogue.call("sum", plus("place", first), "row", "column")));
  GpuLaunch launch = kernel.finish();
  launch.source = p_.c.row.function("c_row_at") + p_.c.column.function("c_column_at") +
                  p_.epilogue.function() + launch.source;
  return launch;
}

}  // namespace athanor::gpu
