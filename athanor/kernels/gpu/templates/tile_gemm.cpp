// The text of a matrix product by matrix units.
#include "athanor/kernels/gpu/templates/tile_gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

/// "lane / 4 * 2 + ...": where a lane's number puts its elements along rows or columns of C.
std::string lane_part(const LaneLayout& layout, int LaneLayout::Cell::*along) {
  std::string text;
  for (size_t bit = 0; bit < layout.lane.size();) {
    const int step = layout.lane[bit].*along;
    size_t bits = 1;
    while (bit + bits < layout.lane.size() && step != 0 && layout.lane[bit + bits].*along == step << bits)
      ++bits;
    if (step != 0) {
      const std::string bits_of_lane = fmt::format("{} % {}", divided("lane", 1 << bit), 1 << bits);
      text += (text.empty() ? "" : " + ") + times(bits_of_lane, step);
    }
    bit += bits;
  }
  return text.empty() ? "0" : text;
}

/// Elements of a lane that lie in memory one after another, if C's rows or columns do.
int64_t run_of(const LaneLayout& layout, int LaneLayout::Cell::*along) {
  int64_t run = 1;
  for (const LaneLayout::Cell& step : layout.element) {
    if (step.*along != run || run >= layout.elements) break;
    run *= 2;
  }
  return run;
}

bool unit_stores_rows(const MatrixUnit& unit) {
  return run_of(unit.c, &LaneLayout::Cell::row) > run_of(unit.c, &LaneLayout::Cell::column);
}

}  // namespace

GemmProblem oriented(const GemmProblem& problem, const MatrixUnit& unit) {
  return unit_stores_rows(unit) && problem.c.column == 1 ? problem.transposed() : problem;
}

TileKernel::TileKernel(const GemmProblem& problem, const TilePoint& point)
    : p_(problem),
      point_(point),
      unit_(*point.unit),
      a_({"a", p_.dtype, p_.m, p_.k, p_.a.row, p_.a.column, p_.a.batch, p_.a.alignment},
         {point.m, point.k, point.items()}, unit_),
      b_({"b", p_.dtype, p_.n, p_.k, p_.b.column, p_.b.row, p_.b.batch, p_.b.alignment},
         {point.n, point.k, point.items()}, unit_) {}

int64_t TileKernel::part_k() const { return ceil_div(ceil_div(p_.k, point_.splits), point_.k) * point_.k; }

int64_t TileKernel::local_bytes() const {
  return point_.stages * (a_.elements() + b_.elements()) * static_cast<int64_t>(size_of(p_.dtype));
}

bool TileKernel::fits(const GpuTraits& traits) const {
  if (p_.k == 0 || !a_.fits() || !b_.fits() || (point_.async && (!a_.copies() || !b_.copies()))) return false;
  if (point_.items() > traits.max_group_size || local_bytes() > traits.local_bytes) return false;
  // Registers hold two sets of fragments in turn.
  if (point_.async && point_.k / a_.fragment_k() % 2 != 0) return false;
  const int64_t reach = point_.m * std::abs(p_.c.row) + point_.n * std::abs(p_.c.column);
  return reach < INT32_MAX;
}

// ---- The loop along k ----

void TileKernel::load(bool edge) {
  a_.load(code_, edge);
  b_.load(code_, edge);
}

void TileKernel::copy(const std::string& at, bool edge) {
  a_.copy(code_, at, edge);
  b_.copy(code_, plus(at, a_.elements()), edge);
}

/// Fetches the tile that begins at k_next: whole, or, at the end of K, with zeros behind it.
void TileKernel::fetch(const std::string& at) {
  const auto one = [&](bool edge) {
    if (edge) code_.line("const int k_left = k_end - k_next;");
    if (point_.async)
      copy(at, edge);
    else
      load(edge);
  };
  if (p_.k % point_.k == 0) {
    one(false);
  } else {
    code_.open(fmt::format("if (k_next + {} <= k_end)", point_.k));
    one(false);
    code_.close();
    code_.open("else");
    one(true);
    code_.close();
  }
  a_.advance(code_);
  b_.advance(code_);
}

void TileKernel::declare_parts(int sets) {
  a_.declare_parts(code_, sets, wave_m() / fragment_m());
  b_.declare_parts(code_, sets, wave_n() / fragment_n());
}

/// Reads the fragments of one step into registers: set `set` of them.
void TileKernel::read(int64_t set, const std::string& step, const std::string& at) {
  a_.read_fragments(code_, set, wave_m() / fragment_m(), step, at);
  b_.read_fragments(code_, set, wave_n() / fragment_n(), step, plus(at, a_.elements()));
}

void TileKernel::multiply(int64_t set) {
  const int64_t units = a_.units();
  code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", wave_m() / unit_.m));
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", wave_n() / unit_.n));
  if (unit_.form == MatrixUnit::Form::fma) {
    code_.open("UNROLL for (int e = 0; e < 16; ++e)");
    code_.line(
        fmt::format("sums[i][j][e] = FMA(F32_OF_BITS(a_part[{0}][i][e / 4]), "
                    "F32_OF_BITS(b_part[{0}][j][e % 4]), sums[i][j][e]);",
                    set));
    code_.close();
  }
  for (int64_t u = 0; u < units && unit_.form != MatrixUnit::Form::fma; ++u) {
    std::string arguments;
    if (unit_.form == MatrixUnit::Form::mma) {
      for (int r = 0; r < unit_.a_registers(); ++r)
        arguments += fmt::format(", a_part[{}][i][{}]", set, u * unit_.a_registers() + r);
      for (int r = 0; r < unit_.b_registers(); ++r)
        arguments += fmt::format(", b_part[{}][j / 2][j % 2 * 2 + {}]", set, u * unit_.b_registers() + r);
    } else {
      const char* const halves[] = {".lo", ".hi"};
      const std::string part = units == 1 ? "" : units == 2 ? halves[u] : fmt::format("[{}]", u);
      arguments = fmt::format(", a_part[{0}][i]{1}, b_part[{0}][j]{1}", set, part);
    }
    code_.line(fmt::format("MULTIPLY_ADD(sums[i][j]{});", arguments));
  }
  code_.close();
  code_.close();
}

/// A whole tile. Where registers are left, a step is read while the one before is multiplied.
void TileKernel::read_and_multiply(const std::string& at) {
  const int64_t steps = point_.k / a_.fragment_k();
  const int64_t sums = wave_m() * wave_n() / unit_.wave;
  const int64_t parts =
      a_.part_registers(wave_m() / fragment_m()) + b_.part_registers(wave_n() / fragment_n());
  if (steps % 2 != 0 || sums + 2 * parts > 160) {
    code_.open(fmt::format("UNROLL for (int f = 0; f < {}; ++f)", steps));
    declare_parts(1);
    read(0, "f", at);
    multiply(0);
    code_.close();
    return;
  }
  declare_parts(2);
  read(0, "0", at);
  for (int64_t f = 0; f < steps; ++f) {
    if (f + 1 < steps) read((f + 1) % 2, std::to_string(f + 1), at);
    if (f + 1 < steps) code_.line("SCHEDULE_FENCE();");
    multiply(f % 2);
  }
}

// While a step is multiplied, the next one is read; while the last of a tile is, the first of the next tile.
void TileKernel::loop_of_copies() {
  const int64_t stage = a_.elements() + b_.elements(), all = stage * point_.stages;
  const int64_t steps = point_.k / a_.fragment_k();
  code_.line("int k_next = k_begin;");
  for (int64_t s = 0; s + 1 < point_.stages; ++s) {
    code_.open("if (k_next < k_end)");
    fetch(std::to_string(s * stage));
    code_.close();
    code_.line("ASYNC_COMMIT();");
    code_.line(fmt::format("k_next += {};", point_.k));
  }
  const auto await_tile = [&] {
    code_.line(fmt::format("ASYNC_WAIT({});", point_.stages - 2));
    code_.line("LOCAL_BARRIER();");
  };
  code_.line(fmt::format("int read_at = 0, write_at = {};", (point_.stages - 1) * stage));
  declare_parts(2);
  await_tile();
  read(0, "0", "read_at");
  code_.open(fmt::format("for (int k = k_begin; k < k_end; k += {})", point_.k));
  for (int64_t f = 0; f < steps; ++f) {
    if (f + 1 < steps) read((f + 1) % 2, std::to_string(f + 1), "read_at");
    if (f == 0) {
      code_.open("if (k_next < k_end)");
      fetch("write_at");
      code_.close();
      code_.line("ASYNC_COMMIT();");
      code_.line(fmt::format("k_next += {};", point_.k));
    }
    if (f + 1 == steps) {
      for (const char* at : {"read_at", "write_at"})
        code_.line(fmt::format("{0} = {0} == {1} ? 0 : {0} + {2};", at, all - stage, stage));
      await_tile();
      read(0, "0", "read_at");  // of the next tile, or, after the last, what nobody uses
    }
    multiply(f % 2);
  }
  code_.close();
}

void TileKernel::loop_of_registers() {
  const int64_t stage = a_.elements() + b_.elements();
  a_.declare_held(code_);
  b_.declare_held(code_);
  const auto store = [&](const std::string& at) {
    a_.store(code_, at);
    b_.store(code_, plus(at, a_.elements()));
  };
  code_.line("int k_next = k_begin, read_at = 0;");
  fetch("");
  store("0");
  code_.line("LOCAL_BARRIER();");
  // Without branches, and with fences: compilers would move multiplications behind the wait for what was
  // fetched, or fetch it only then.
  code_.open(fmt::format("for (k_next += {0}; k_next < k_end; k_next += {0})", point_.k));
  fetch("");
  code_.line("SCHEDULE_FENCE();");
  read_and_multiply("read_at");
  code_.line("SCHEDULE_FENCE();");
  if (point_.stages == 1) code_.line("LOCAL_BARRIER();");
  const std::string other = point_.stages == 1 ? "0" : fmt::format("({} - read_at)", stage);
  store(other);
  code_.line("LOCAL_BARRIER();");
  if (point_.stages > 1) code_.line(fmt::format("read_at = {};", other));
  code_.close();
  read_and_multiply("read_at");
}

// ---- The result ----

std::string TileKernel::finished(const std::string& x, const std::string& row,
                                 const std::string& column) const {
  if (point_.splits > 1) return x;
  std::string text = x;
  if (p_.bias_buffer >= 0)
    text = fmt::format("{} + LOAD({}, bias, {})", x, language_name(p_.dtype),
                       affine(0, {p_.bias_batch, p_.bias_row, p_.bias_column},
                              {"batch", "(" + row + ")", "(" + column + ")"}));
  return p_.activation.empty() ? text : fmt::format("activated({})", text);
}

/// Several results of a lane that lie together in memory, at once.
void TileKernel::store_run(int number, DType type, const std::string& at,
                           const std::vector<std::string>& values) {
  const auto size = static_cast<int64_t>(size_of(type)), registers = std::ssize(values) * size / 4;
  const std::string out = fmt::format("out{}", number);
  code_.line(fmt::format("{} {};", registers == 1 ? "u32" : fmt::format("u32x{}", registers), out));
  for (int64_t r = 0; r < registers; ++r) {
    const auto first = static_cast<size_t>(r * 4 / size);
    const std::string value =
        size == 4 ? fmt::format("BITS_OF_F32({})", values[first])
                  : fmt::format("PACKED({}, {}, {})", language_name(type), values[first], values[first + 1]);
    code_.line(fmt::format("{} = {};", registers == 1 ? out : fmt::format("{}[{}]", out, r), value));
  }
  code_.line(fmt::format("WRITE_REGISTERS({}, c + {}, {});", registers, at, out));
}

void TileKernel::store_result() {
  const bool splits = point_.splits > 1;
  const DType type = splits ? DType::f32 : p_.dtype;
  const auto size = static_cast<int64_t>(size_of(type));
  const int64_t c_row = c_row_stride(), c_column = c_column_stride();
  const LaneLayout& c = unit_.c;
  const bool rows_run = c_row == 1;
  const auto along = rows_run ? &LaneLayout::Cell::row : &LaneLayout::Cell::column;
  const int64_t extent = rows_run ? p_.m : p_.n, other = rows_run ? c_column : c_row;
  // Neighbours go to memory together, as far as every row begins at a multiple of them.
  int64_t run = c_row == 1 || c_column == 1 ? std::min<int64_t>(run_of(c, along), 16 / size) : 1;
  while (run > 1 && (extent % run != 0 || other % run != 0 || p_.c.batch % run != 0)) run /= 2;
  if (run * size < 4) run = 1;

  code_.line(fmt::format("const int row_begin = wave_m * {} + {}, column_begin = wave_n * {} + {};", wave_m(),
                         lane_part(c, &LaneLayout::Cell::row), wave_n(),
                         lane_part(c, &LaneLayout::Cell::column)));
  code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", wave_m() / unit_.m));
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", wave_n() / unit_.n));
  for (int e = 0; e < c.elements; e += static_cast<int>(run)) {
    const LaneLayout::Cell first = c.at(0, e);
    const std::string row = fmt::format("row{}", e), column = fmt::format("column{}", e);
    code_.line(fmt::format("const int {} = {}, {} = {};", row,
                           plus(fmt::format("row_begin + i * {}", unit_.m), first.row), column,
                           plus(fmt::format("column_begin + j * {}", unit_.n), first.column)));
    std::string inside;
    if (p_.m % point_.m != 0) inside = fmt::format("m0 + {} < {}", row, p_.m);
    if (p_.n % point_.n != 0)
      inside += fmt::format("{}n0 + {} < {}", inside.empty() ? "" : " && ", column, p_.n);
    if (!inside.empty()) code_.open(fmt::format("if ({})", inside));
    const std::string at = times(row, c_row) + " + " + times(column, c_column);
    std::vector<std::string> values;
    for (int64_t r = 0; r < run; ++r)
      values.push_back(finished(fmt::format("sums[i][j][{}]", e + r), plus("m0 + " + row, rows_run ? r : 0),
                                plus("n0 + " + column, rows_run ? 0 : r)));
    if (run == 1)
      code_.line(fmt::format("STORE({}, c, {}, {});", language_name(type), at, values[0]));
    else
      store_run(e, type, at, values);
    if (!inside.empty()) code_.close();
  }
  code_.close();
  code_.close();
}

std::string TileKernel::activation() const {
  std::string text = "x";
  if (p_.activation == "relu")
    text = "x < 0 ? 0 : x";  // keeps NaN
  else if (p_.activation == "tanh")
    text = "tanh_f32(x)";
  else if (p_.activation == "sigmoid")
    text = "1.0f / (1.0f + exp_f32(-x))";
  else if (!p_.activation.empty())
    throw Error(ErrorCode::internal, "no such epilogue: " + p_.activation);
  return fmt::format("DEVICE f32 activated(f32 x) {{ return {}; }}\n", text);
}

// ---- The whole ----

void TileKernel::begin() {
  const bool splits = point_.splits > 1, bias = p_.bias_buffer >= 0 && !splits;
  const std::string in = fmt::format("const STORED({})", language_name(p_.dtype));
  const std::string out = splits ? "f32" : fmt::format("STORED({})", language_name(p_.dtype));
  code_.line(fmt::format(
      "// C[{}, {}] = A[{}, {}] B[{}, {}]: a group computes {} x {}, its {} x {} waves {} x {} each, by {}.",
      p_.m, p_.n, p_.m, p_.k, p_.k, p_.n, point_.m, point_.n, point_.waves_m, point_.waves_n, wave_m(),
      wave_n(), unit_.name));
  code_.line(fmt::format("// Memory: {}; {}.", a_.description(), b_.description()));
  std::vector<std::pair<std::string, std::string>> buffers = {{in, "a_matrices"}, {in, "b_matrices"}};
  if (bias) buffers.emplace_back(in, "bias");
  buffers.emplace_back(out, "c_matrices");
  std::string parameters;
  for (const auto& [type, name] : buffers)
    parameters += fmt::format("{}BUFFER({}, {})", parameters.empty() ? "" : ", ", type, name);
  code_.open(fmt::format("KERNEL void gemm_tiles({})", parameters));
  for (const auto& [type, name] : buffers) code_.line(fmt::format("BIND({}, {});", type, name));

  const int64_t tiles_m = ceil_div(p_.m, point_.m), tiles_n = ceil_div(p_.n, point_.n);
  // Groups that run at the same time share rows of A and columns of B: they fill bands of C.
  const int64_t band = std::min<int64_t>(tiles_m, 8);
  code_.line(fmt::format("const int tile = GROUP_ID(0) % {}, part = GROUP_ID(0) / {};", tiles_m * tiles_n,
                         tiles_m * tiles_n));
  code_.line(fmt::format("const int batch = part % {0}, k_begin = part / {0} * {1};", p_.batch, part_k()));
  code_.line(fmt::format("const int k_end = MIN(k_begin + {}, {});", part_k(), p_.k));
  if (tiles_m % band == 0) {
    code_.line(fmt::format("const int m0 = (tile / {} * {} + tile % {}) * {};", band * tiles_n, band, band,
                           point_.m));
    code_.line(fmt::format("const int n0 = tile / {} % {} * {};", band, tiles_n, point_.n));
  } else {
    code_.line(fmt::format("const int band = tile / {0} * {1}, band_rows = MIN({1}, {2} - band);",
                           band * tiles_n, band, tiles_m));
    code_.line(fmt::format("const int m0 = (band + tile % {} % band_rows) * {};", band * tiles_n, point_.m));
    code_.line(fmt::format("const int n0 = tile % {} / band_rows * {};", band * tiles_n, point_.n));
  }
  const auto size = static_cast<int64_t>(size_of(p_.dtype));
  const auto pointer = [&](const char* name, const GemmProblem::Operand& x, const std::string& rows,
                           const std::string& columns) {
    code_.line(
        fmt::format("GLOBAL const u8 *{0} = (GLOBAL const u8 *){0}_matrices + (batch * (i64){1} + {2} * "
                    "(i64){3} + {4} * (i64){5}) * {6};",
                    name, x.batch, rows, x.row, columns, x.column, size));
  };
  pointer("a", p_.a, "m0", "k_begin");
  pointer("b", p_.b, "k_begin", "n0");
  const std::string matrix =
      splits ? fmt::format("part * (i64){}", p_.m * p_.n) : fmt::format("batch * (i64){}", p_.c.batch);
  code_.line(fmt::format("GLOBAL {} *const c = c_matrices + {} + m0 * (i64){} + n0 * (i64){};", out, matrix,
                         c_row_stride(), c_column_stride()));
  code_.line(fmt::format("LOCAL __attribute__((aligned(16))) STORED({}) tiles[{}];", language_name(p_.dtype),
                         point_.stages * (a_.elements() + b_.elements())));
  code_.line("const int item = LOCAL_ID(0);");
  code_.line(fmt::format("const int lane = item % {0}, wave_m = item / {0} % {1}, wave_n = item / {2};",
                         unit_.wave, point_.waves_m, unit_.wave * point_.waves_m));
}

GpuLaunch TileKernel::launch(GpuLaunch::Argument c) {
  begin();
  a_.declare(code_, "m0");
  b_.declare(code_, "n0");
  a_.declare_fragments(code_, fmt::format("wave_m * {}", wave_m()));
  b_.declare_fragments(code_, fmt::format("wave_n * {}", wave_n()));
  const bool fma = unit_.form == MatrixUnit::Form::fma;
  const int64_t units_m = wave_m() / unit_.m, units_n = wave_n() / unit_.n;
  code_.line(fma ? fmt::format("f32 sums[{}][{}][16];", units_m, units_n)
                 : fmt::format("f32x{} sums[{}][{}];", unit_.c.elements, units_m, units_n));
  code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", units_m));
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", units_n));
  code_.line(fma ? "UNROLL for (int e = 0; e < 16; ++e) sums[i][j][e] = 0;"
                 : fmt::format("sums[i][j] = (f32x{})(0.0f);", unit_.c.elements));
  code_.close();
  code_.close();
  if (point_.async)
    loop_of_copies();
  else
    loop_of_registers();
  store_result();
  code_.close();

  const bool bias = p_.bias_buffer >= 0 && point_.splits == 1;
  GpuLaunch launch{
      .name = "gemm_tiles",
      .source = (fma ? "" : multiply_add_text(unit_)) +
                (p_.activation.empty() || point_.splits > 1 ? "" : activation()) + code_.text(),
      .groups = {ceil_div(p_.m, point_.m) * ceil_div(p_.n, point_.n) * p_.batch * point_.splits, 1, 1},
      .group_size = {point_.items(), 1, 1},
      .local_bytes = local_bytes(),
      .arguments = {{p_.a.buffer, p_.a.start}, {p_.b.buffer, p_.b.start}}};
  if (bias) launch.arguments.push_back({p_.bias_buffer});
  launch.arguments.push_back(c);
  return launch;
}

GpuCandidate tile_candidate(const GemmProblem& problem, const TilePoint& point) {
  TileKernel kernel(oriented(problem, *point.unit), point);
  GpuCandidate candidate;
  candidate.name = fmt::format("{} {}x{}x{}", point.unit->name, point.m, point.n, point.k);
  candidate.parameters = {{"tile_m", point.m},        {"tile_n", point.n},        {"tile_k", point.k},
                          {"waves_m", point.waves_m}, {"waves_n", point.waves_n}, {"stages", point.stages},
                          {"unit_m", point.unit->m},  {"splits", point.splits}};
  GpuLaunch::Argument c{problem.c.buffer, problem.c.start};
  if (point.splits > 1) {
    c = {problem.scratch_buffer, static_cast<int64_t>(problem.scratch_start)};
    candidate.scratch_bytes =
        problem.scratch_start +
        static_cast<size_t>(point.splits * problem.batch * problem.m * problem.n) * sizeof(float);
    candidate.name += fmt::format(" split {}", point.splits);
  }
  candidate.launches.push_back(kernel.launch(c));
  if (point.splits > 1) candidate.launches.push_back(sum_launch(problem, point.splits, c));
  return candidate;
}

}  // namespace athanor::gpu
