// The text of a matrix product by matrix units.
#include "athanor/kernels/gpu/templates/tile_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/lane_exchange.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

static TileOperand::Source source_of(const char* name, const TileProblem& p,
                                     const TileProblem::Matrix& matrix) {
  using enum TileProblem::Groups::Along;
  const bool is_a = &matrix == &p.a;
  return {.name = name,
          .dtype = matrix.dtype.value_or(p.input),
          .outer = matrix.outer,
          .k = matrix.k,
          .batch = matrix.batch,
          .alignment = matrix.alignment,
          .border = matrix.border,
          .prologue = matrix.prologue,
          .outer_end = !p.has_groups(is_a ? row : column) ? ""
                       : is_a                             ? "m_end"
                                                          : "n_end",
          .any_k = p.has_groups(k)};
}

TileKernel::TileKernel(const TileProblem& problem, const TilePoint& point)
    : p_(problem),
      point_(point),
      unit_(*point.unit),
      a_(source_of("a", p_, p_.a), {point.m, point.k, point.items()}, unit_),
      b_(source_of("b", p_, p_.b), {point.n, point.k, point.items()}, unit_),
      row_(p_.c.row),
      column_(p_.c.column) {
  if (point.splits > 1) {
    // Parts of a split product lie in C's order, without gaps.
    const bool rows_together = p_.c.row.stride() == 1 && p_.c.column.stride() != 1;
    row_ = {p_.m, rows_together ? 1 : p_.n};
    column_ = {p_.n, rows_together ? p_.m : 1};
  }
  c_ = exchanges_halves(point.splits > 1) ? behind_halves(unit_.c) : unit_.c;
  find_reduced();
}

int64_t TileKernel::part_k() const { return ceil_div(ceil_div(p_.k, point_.splits), point_.k) * point_.k; }

int64_t TileKernel::local_bytes() const {
  const int64_t tiles = (a_.elements() + b_.elements()) * static_cast<int64_t>(size_of(unit_.input));
  constexpr int64_t arrival = 8;
  return point_.stages * (tiles + (point_.boxes ? arrival : 0));
}

int64_t TileKernel::held_sums() const {
  const auto terms =
      reduces() ? static_cast<int64_t>(p_.epilogue.reductions().size() * kept_cells().size()) : 0;
  return wave_m() * wave_n() / unit_.wave + terms;
}

bool TileKernel::has_room_for_addresses() const {
  constexpr int64_t most_sums = 160;
  return point_.boxes || point_.loop_sums() <= most_sums;
}

bool TileKernel::fits(const GpuTraits& traits) const {
  if (p_.k == 0 || !a_.fits() || !b_.fits() || (point_.async && (!a_.copies() || !b_.copies()))) return false;
  if (p_.has_prologue() && (point_.async || unit_.reads_local())) return false;
  if (p_.groups && (point_.splits > 1 || point_.streams > 0 || point_.boxes || !row_.even() ||
                    !column_.even() || reduces()))
    return false;
  const bool promotes = unit_.promotes_after > 0;
  if (promotes && point_.k > unit_.promotes_after) return false;
  // Two units beside each other have the registers of one's sums in turn, if lanes add these to theirs.
  const bool suits = wave_n() == unit_.n || (promotes && wave_n() == 2 * unit_.n);
  if (unit_.reads_local() && (point_.stages < 3 || !suits)) return false;
  // If tiles go through registers, a tile waits there beside the sums; elements of two bytes that are read
  // one by one would take a register each.
  constexpr int64_t most_beside_local = 200;
  if (unit_.reads_local() && !point_.async &&
      (!a_.reads_registers() || !b_.reads_registers() ||
       point_.loop_sums() + a_.load_registers() + b_.load_registers() > most_beside_local))
    return false;
  if (point_.boxes && (!traits.box_copies || !a_.has_boxes() || !b_.has_boxes())) return false;
  if (point_.items() > traits.max_group_size || local_bytes() > traits.most_local_bytes()) return false;
  // Reduced values wait in registers beside the sums, and RDNA's compiler takes another register for each
  // step of an epilogue. Above these limits it spills.
  constexpr int64_t most_sums = 144, most_with_steps = 160;
  const int64_t sums = held_sums();
  if (reduces() && sums > most_sums) return false;
  // Places that are computed for each tile take registers too: sm_86 spilled 48 beside 128 sums.
  constexpr int64_t most_beside_places = 96;
  const bool has_places =
      unit_.form == MatrixUnit::Form::mma && (a_.computes_places() || b_.computes_places());
  if (has_places && sums > most_beside_places) return false;
  if (point_.streams > 0 && !can_stream()) return false;
  const bool finishes = point_.splits == 1 && unit_.form == MatrixUnit::Form::wmma;
  if (finishes && sums + p_.epilogue.steps() > most_with_steps) return false;
  if (unit_.form == MatrixUnit::Form::wmma &&
      sums + fragment_registers() + a_.load_registers() + b_.load_registers() > most_in_use)
    return false;
  // Registers hold two sets of fragments in turn.
  if (point_.async && point_.k / a_.fragment_k() % 2 != 0) return false;
  const int64_t reach = (row_.even() ? point_.m * std::abs(row_.stride()) : row_.reach()) +
                        (column_.even() ? point_.n * std::abs(column_.stride()) : column_.reach());
  return reach < INT32_MAX;
}

/// Computes a tile's first row and column from its number.
void TileKernel::find_tile(Code& code) const {
  // Groups that run at the same time share rows of A and columns of B: they fill bands of C.
  const int64_t band = std::min<int64_t>(tiles_m(), 8);
  if (tiles_m() == band) {
    code.line(fmt::format("const int m0 = {};", times(remainder("tile", band), point_.m)));
    code.line(fmt::format("const int n0 = {};", times(divided("tile", band), point_.n)));
  } else if (tiles_m() % band == 0) {
    const std::string m = plus(times(divided("tile", band * tiles_n()), band), remainder("tile", band));
    code.line(fmt::format("const int m0 = {};", times(band == 1 ? m : "(" + m + ")", point_.m)));
    code.line(
        fmt::format("const int n0 = {};", times(remainder(divided("tile", band), tiles_n()), point_.n)));
  } else {
    code.line(fmt::format("const int band = tile / {0} * {1}, band_rows = MIN({1}, {2} - band);",
                          band * tiles_n(), band, tiles_m()));
    code.line(fmt::format("const int m0 = (band + tile % {} % band_rows) * {};", band * tiles_n(), point_.m));
    code.line(fmt::format("const int n0 = tile % {} / band_rows * {};", band * tiles_n(), point_.n));
  }
}

void TileKernel::begin(bool local_at_launch) {
  const bool splits = point_.splits > 1;
  const auto in = [&](const TileProblem::Matrix& matrix) {
    return fmt::format("const {}", stored(matrix.dtype.value_or(p_.input)));
  };
  const std::string out = splits ? std::string(sum_type(unit_)) : stored(p_.output);
  code_.line(fmt::format(
      "// C[{}, {}] = A[{}, {}] B[{}, {}]: a group computes {} x {}, its {} x {} waves {} x {} each, by {}.",
      p_.m, p_.n, p_.m, p_.k, p_.k, p_.n, point_.m, point_.n, point_.waves_m, point_.waves_n, wave_m(),
      wave_n(), unit_.name));
  code_.line(fmt::format("// Memory: {}; {}.", a_.description(), b_.description()));
  std::vector<std::pair<std::string, std::string>> buffers = {{in(p_.a), "a_matrices"},
                                                              {in(p_.b), "b_matrices"}};
  for (const auto* matrix : {&p_.a, &p_.b})
    for (const Parameter& extra : matrix->prologue.parameters()) buffers.emplace_back(extra.type, extra.name);
  if (p_.groups) buffers.emplace_back("const i64", "ends");
  if (!splits)
    for (const Parameter& extra : p_.epilogue.parameters()) buffers.emplace_back(extra.type, extra.name);
  const bool further = !splits && p_.epilogue.has_further_results();
  if (!further) buffers.emplace_back(out, "c_matrices");
  if (further)
    for (const ResultEpilogue::Output& output : p_.epilogue.outputs())
      buffers.emplace_back(stored(output.type), output.name);
  if (reduces()) buffers.emplace_back("f32", "partials");
  if (point_.streams > 0) buffers.emplace_back(std::string(sum_type(unit_)), "parts");
  if (p_.groups) buffers.emplace_back("i32", "fault");
  std::string parameters;
  const auto is_tensor = [&](size_t i) { return point_.boxes && i < 2; };
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto& [type, name] = buffers[i];
    parameters += i == 0 ? "" : ", ";
    parameters += is_tensor(i) ? fmt::format("TENSOR({})", name) : fmt::format("BUFFER({}, {})", type, name);
  }
  if (p_.groups) parameters += ", i32 fault_code";
  // Otherwise registers of both kinds, for sums and for others, leave no room for a second wave.
  code_.open(fmt::format("KERNEL {}void gemm_tiles({})", unit_.fnuz ? "ROOM_FOR_WAVES(2) " : "", parameters));
  for (size_t i = 0; i < buffers.size(); ++i)
    if (!is_tensor(i)) code_.line(fmt::format("BIND({}, {});", buffers[i].first, buffers[i].second));

  if (point_.streams > 0) {
    declare_local(local_at_launch);
    begin_stream();
  } else if (has_tiles_of_groups()) {
    find_group();
  } else if (p_.batch * point_.splits == 1) {
    code_.line("const int tile = GROUP_ID(0), batch = 0;");
  } else {
    code_.line(fmt::format("const int tile = GROUP_ID(0) % {0}, part = GROUP_ID(0) / {0}, batch = {1};",
                           tiles_m() * tiles_n(), splits ? remainder("part", p_.batch) : "part"));
  }
  if (splits) {
    code_.line(fmt::format("const int k_begin = {};", times(divided("part", p_.batch), part_k())));
    code_.line(fmt::format("const int k_end = MIN(k_begin + {}, {});", part_k(), p_.k));
  } else if (has_groups(TileProblem::Groups::Along::k)) {
    find_steps_of_group();
  } else if (unit_.reads_local()) {
    // If it knew how often the loop runs, NVRTC would take 141 registers instead of 128 for tf32.
    code_.line(fmt::format("const int k_begin = 0; int k_end = {};", p_.k));
    code_.line("HIDDEN(k_end);");
  } else if (point_.streams == 0) {
    code_.line(fmt::format("const int k_begin = 0, k_end = {};", p_.k));
  }
  if (!has_tiles_of_groups()) find_tile(code_);
  std::string c = splits ? times64("part", p_.m * p_.n) : times64(p_.batch == 1 ? "0" : "batch", p_.c.batch);
  if (row_.even()) c = plus(c, times64("m0", row_.stride()));
  if (column_.even()) c = plus(c, times64("n0", column_.stride()));
  if (!splits && !p_.epilogue.empty()) {
    const int64_t first = p_.c.memory.byte_offset / static_cast<int64_t>(size_of(p_.output));
    code_.line(fmt::format("const i64 c_first = {};", plus(c, first)));
  }
  if (!further) code_.line(fmt::format("GLOBAL {} *const c = c_matrices + {};", out, c));
  if (point_.streams == 0) declare_local(local_at_launch);
}

void TileKernel::declare_local(bool at_launch) {
  code_.line(fmt::format(fmt::runtime(at_launch ? "LOCAL_AT_LAUNCH(STORED({}), tiles, {});"
                                                : "LOCAL __attribute__((aligned(16))) STORED({}) tiles[{}];"),
                         language_name(unit_.input), point_.stages * (a_.elements() + b_.elements())));
  code_.line("const int item = LOCAL_ID(0);");
  code_.line(fmt::format("const int lane = item % {0}, wave_m = item / {0} % {1}, wave_n = item / {2};",
                         unit_.wave, point_.waves_m, unit_.wave * point_.waves_m));
}

/// Calls `body` in loops over the units' results.
void TileKernel::each_unit(const std::function<void(const std::string& sums)>& body) {
  unrolled(code_, "i", wave_m() / unit_.m, [&](const std::string& i) {
    unrolled(code_, "j", wave_n() / unit_.n,
             [&](const std::string& j) { body(fmt::format("sums[{}][{}]", i, j)); });
  });
}

GpuLaunch TileKernel::launch(GpuLaunch::Argument c, const GpuTraits& traits, GpuLaunch::Argument parts) {
  // Compilers do better with addresses that they know.
  const bool local_at_launch = unit_.reads_local() || local_bytes() > traits.local_bytes;
  begin(local_at_launch);
  if (!point_.boxes) {
    a_.declare(code_, "m0");
    b_.declare(code_, "n0");
  }
  if (!unit_.reads_local()) {
    a_.declare_fragments(code_, fmt::format("wave_m * {}", wave_m()));
    b_.declare_fragments(code_, fmt::format("wave_n * {}", wave_n()));
  }
  const int64_t units_m = wave_m() / unit_.m, units_n = wave_n() / unit_.n;
  code_.line(unit_.of_lanes()
                 ? fmt::format("{} sums[{}][{}][16];", sum_type(unit_), units_m, units_n)
                 : fmt::format("{}x{} sums[{}][{}];", sum_type(unit_), unit_.c.elements, units_m, units_n));
  each_unit([&](const std::string& sums) {
    code_.line(unit_.of_lanes() ? fmt::format("UNROLL for (int e = 0; e < 16; ++e) {}[e] = 0;", sums)
                                : fmt::format("{} = ({}x{})(0);", sums, sum_type(unit_), unit_.c.elements));
  });
  // Rows (or columns) behind the last group have no matrix, so their sums are 0.
  if (has_tiles_of_groups()) code_.open(fmt::format("if (batch < {})", p_.groups->count));
  if (point_.boxes)
    loop_of_boxes();
  else if (unit_.reads_local())
    point_.async ? loop_of_local_matrices() : loop_of_written_matrices();
  else if (point_.async)
    loop_of_copies();
  else
    loop_of_registers();
  if (has_tiles_of_groups()) code_.close();
  if (unit_.fnuz) each_unit([&](const std::string& sums) { code_.line(sums + " *= 4.0f;"); });
  if (point_.streams > 0)
    store_stream();
  else
    store_result(point_.splits > 1);
  code_.close();

  std::string functions = a_.functions() + b_.functions();
  if (p_.groups) functions += groups().begin_of();
  functions += row_.function("c_row_at") + column_.function("c_column_at");
  GpuLaunch launch{.name = "gemm_tiles",
                   .source = multiply_add_text(unit_) + functions +
                             (point_.splits > 1 ? "" : p_.epilogue.function(vectors_)) + code_.text(),
                   .groups = {all_groups(), 1, 1},
                   .group_size = {point_.items(), 1, 1},
                   .local_bytes = local_bytes(),
                   .local_at_launch = local_at_launch,
                   .arguments = {p_.a.memory, p_.b.memory},
                   .compile_options = compile_options_for(unit_)};
  for (const auto* matrix : {&p_.a, &p_.b})
    for (const Parameter& extra : matrix->prologue.parameters()) launch.arguments.push_back(extra.argument);
  if (p_.groups) launch.arguments.push_back(p_.groups->ends), launch.can_fault = true;
  if (point_.boxes) launch.tensors = {a_.tensor(0, p_.batch), b_.tensor(1, p_.batch)};
  if (point_.splits == 1)
    for (const Parameter& extra : p_.epilogue.parameters()) launch.arguments.push_back(extra.argument);
  if (point_.splits > 1 || !p_.epilogue.has_further_results()) {
    launch.arguments.push_back(c);
    if (point_.streams > 0) launch.arguments.push_back(parts);
    return launch;
  }
  for (const ResultEpilogue::Output& output : p_.epilogue.outputs())
    launch.arguments.push_back(output.argument);
  if (reduces()) launch.arguments.push_back(p_.partials.memory);
  return launch;
}

}  // namespace athanor::gpu
