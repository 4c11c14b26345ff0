// grouped_matmul and its gradient by the matrices.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

// A tile of a work-group, whose items multiply by FMA: see grouped_matmul.kernel.
struct GroupedPoint {
  int64_t rows, vectors, width, group_x, group_y, k_step;
  int64_t tile_m() const { return rows * group_y; }
  int64_t tile_n() const { return vectors * width * group_x; }
  int64_t items() const { return group_x * group_y; }
  int64_t pitch() const { return tile_m() + (items() > 1 ? 4 : 0); }
};

// The same, whose waves multiply by a matrix unit.
struct GroupedUnitPoint {
  const MatrixUnit* unit;
  int64_t units_m, units_n;  // of a wave
  int64_t waves_m, waves_n;
  int64_t k_step;
  int64_t tile_m() const { return units_m * unit->m * waves_m; }
  int64_t tile_n() const { return units_n * unit->n * waves_n; }
  int64_t items() const { return waves_m * waves_n * unit->wave; }
  int64_t word_elements() const { return 4 / static_cast<int64_t>(size_of(unit->input)); }
  int64_t local_bytes() const { return (tile_m() + tile_n()) * (k_step / word_elements() + 4) * 4; }
};

struct GroupedProblem {
  bool gradient;
  DType dtype;
  int64_t rows, inner, groups, columns;
  Ints x, other;  // strides
  int64_t ends;   // stride
};

bool serves_groups(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                   const GpuTraits& traits) {
  return serves_floats(inputs, output, attrs, traits) && output.shape.size() > 0 &&
         std::ranges::all_of(inputs, [](const TensorType& in) { return in.shape.size() > 0; }) &&
         inputs[0].shape[0] < (int64_t{1} << 30);
}

int64_t bytes_of(const GroupedProblem& p) { return p.dtype == DType::f64 ? 8 : 4; }

int64_t local_bytes_of(const GroupedProblem& p, const GroupedPoint& point) {
  constexpr int64_t alignment = 64;
  const auto tile = [&](int64_t numbers) { return ceil_div(numbers * bytes_of(p), alignment) * alignment; };
  return tile(point.k_step * point.pitch()) + tile(point.k_step * point.tile_n());
}

// Tiles of rows, some of which are empty.
template <class Point>
int64_t slots_of(const GroupedProblem& p, const Point& point) {
  if (p.gradient) return p.groups * ceil_div(p.inner, point.tile_m());
  return p.rows / point.tile_m() + p.groups + 1;
}

// The time on a full device if all groups are alike, in units of its peak. Large tiles read less memory.
template <class Point>
double cost_of(const GroupedProblem& p, const Point& point, const GpuTraits& traits) {
  const int64_t high = p.gradient ? p.inner : ceil_div(p.rows, p.groups);
  const int64_t tiles = p.groups * ceil_div(high, point.tile_m()) * ceil_div(p.columns, point.tile_n());
  const auto work = static_cast<double>(point.tile_m() * point.tile_n());
  const double reuse = work / static_cast<double>(point.tile_m() + point.tile_n());
  return static_cast<double>(ceil_div(tiles, 2L * traits.compute_units)) * work * (1 + 16 / reuse);
}

// Best guess first, at least one.
std::vector<GroupedPoint> points_of(const GroupedProblem& p, const GpuTraits& traits) {
  // 128 x 128, 64 x 64, 32 x 64, 32 x 32 and, for few rows, 8 x 128.
  std::vector<GroupedPoint> points = {{8, 2, 4, 16, 16, 8},
                                      {4, 1, 4, 16, 16, 16},
                                      {4, 1, 4, 16, 8, 16},
                                      {4, 1, 4, 8, 8, 16},
                                      {8, 1, 2, 64, 1, 16}};
  if (p.dtype == DType::f64) points = {{4, 4, 1, 16, 16, 8}, {4, 4, 1, 8, 8, 8}};
  if (traits.grain->side_by_side == 1) {  // an item is a core
    const int64_t width = p.dtype == DType::f64 ? 1 : 16, vectors = p.dtype == DType::f64 ? 8 : 2;
    points = {{8, vectors, width, 1, 1, 256}};
  }
  for (GroupedPoint& point : points) {
    point.k_step = std::min(point.k_step, p.gradient ? p.rows : p.inner);
    while (point.k_step > 1 && local_bytes_of(p, point) > traits.local_bytes) point.k_step /= 2;
  }
  std::erase_if(points, [&](const GroupedPoint& point) {
    return point.items() > traits.max_group_size || local_bytes_of(p, point) > traits.local_bytes;
  });
  if (points.empty()) return {{1, 1, 1, 1, 1, 1}};
  std::ranges::stable_sort(points, {}, [&](const GroupedPoint& one) { return cost_of(p, one, traits); });
  if (points.size() > 3) points.resize(3);
  return points;
}

// Best guess first; {} if the device has no unit for the type whose operands are registers. Units of a
// language that does not exchange lanes have not been tried with this kernel.
std::vector<GroupedUnitPoint> unit_points_of(const GroupedProblem& p, const GpuTraits& traits) {
  using enum MatrixUnit::Form;
  const auto suits = [&](const MatrixUnit& unit) {
    return unit.input == p.dtype && unit.output == DType::f32 && !unit.tf32 && unit.exchanges_lanes() &&
           (unit.form == wmma || unit.form == mfma || unit.form == mma);
  };
  const auto unit = std::ranges::find_if(traits.matrix_units, suits);
  if (unit == traits.matrix_units.end()) return {};
  struct Tile {
    int64_t m, n, waves_m, waves_n;
  };
  std::vector<GroupedUnitPoint> points;
  for (const Tile& tile : {Tile{128, 128, 2, 4}, Tile{64, 64, 2, 2}, Tile{32, 64, 1, 2}}) {
    const GroupedUnitPoint point{
        &*unit,       tile.m / tile.waves_m / unit->m, tile.n / tile.waves_n / unit->n, tile.waves_m,
        tile.waves_n, p.dtype == DType::f32 ? 16 : 32};
    if (point.items() <= traits.max_group_size && point.local_bytes() <= traits.local_bytes)
      points.push_back(point);
  }
  std::ranges::stable_sort(points, {}, [&](const auto& one) { return cost_of(p, one, traits); });
  if (points.size() > 2) points.resize(2);
  return points;
}

// "(0 + (lane >> 1 & 1) * 2)": what the bits of a lane's number add to the row or column of its elements.
std::string lane_sum(const LaneLayout& layout, int LaneLayout::Cell::*along, int64_t divisor = 1) {
  std::string sum = "(0";
  for (size_t bit = 0; bit < layout.lane.size(); ++bit)
    if (const int64_t step = layout.lane[bit].*along / divisor; step != 0)
      sum += fmt::format(" + ((lane) >> {} & 1) * {}", bit, step);
  return sum + ")";
}

// The macros of grouped_matmul.kernel for a unit.
std::string unit_text(const GroupedUnitPoint& point) {
  const MatrixUnit& unit = *point.unit;
  const int64_t in_word = point.word_elements();
  const bool single = unit.form == MatrixUnit::Form::mma;  // the unit takes single registers
  std::string text = multiply_add_text(unit);
  text += fmt::format("typedef f32x{} unit_sums;\n", unit.c.elements);
  text += fmt::format("#define BITS_OF(x) {}\n", unit.input == DType::f32 ? "BITS_OF_F32(x)" : "((u32)(x))");
  std::string registers;
  for (const char name : {'A', 'B'}) {
    const LaneLayout& layout = name == 'A' ? unit.a : unit.b;
    const int count = name == 'A' ? unit.a_registers() : unit.b_registers();
    const std::string type = count == 1 || single ? "u32" : fmt::format("u32x{}", count);
    text += fmt::format("#define {}_LANE_ROW(lane) {}\n#define {}_LANE_WORD(lane) {}\n", name,
                        lane_sum(layout, &LaneLayout::Cell::row), name,
                        lane_sum(layout, &LaneLayout::Cell::column, in_word));
    text += fmt::format("#define {}_PARTS(part) {} part[UNITS_{}]{}\n", name, type, name == 'A' ? 'M' : 'N',
                        single ? fmt::format("[{}]", count) : "");
    text += fmt::format("#define READ_{}(part, p) do {{", name);
    for (int r = 0; r < count; ++r) {
      const LaneLayout::Cell cell = layout.at(0, r * static_cast<int>(in_word));
      text +=
          fmt::format(" (part){} = (p)[{} * PITCH + {}];",
                      count == 1 && !single ? "" : fmt::format("[{}]", r), cell.row, cell.column / in_word);
      registers += fmt::format(", ({})[{}]", name == 'A' ? 'a' : 'b', r);
    }
    text += " } while (0)\n";
  }
  text += fmt::format("#define MULTIPLY(c, a, b) MULTIPLY_ADD(c{})\n", single ? registers : ", a, b");
  text += fmt::format("#define C_LANE_ROW(lane) {}\n#define C_LANE_COLUMN(lane) {}\n",
                      lane_sum(unit.c, &LaneLayout::Cell::row), lane_sum(unit.c, &LaneLayout::Cell::column));
  text += "#define STORE_UNIT(sums, row, column) do {";
  for (int e = 0; e < unit.c.elements; ++e)
    text += fmt::format(" STORE_ELEMENT((sums)[{}], (row) + {}, (column) + {});", e, unit.c.at(0, e).row,
                        unit.c.at(0, e).column);
  return text + " } while (0)\n";
}

// The constants of the problem.
Defines defines_of(const GroupedProblem& p) {
  const int64_t m_stride = p.x[p.gradient ? 1 : 0], k_stride = p.x[p.gradient ? 0 : 1];
  const size_t first = p.gradient ? 0 : 1;
  const int64_t m = p.gradient ? p.inner : p.rows, k = p.gradient ? p.rows : p.inner;
  const auto reach = [](int64_t extent, int64_t stride) { return (extent - 1) * std::abs(stride); };
  const int64_t farthest = std::max(reach(m, m_stride) + reach(k, k_stride),
                                    reach(k, p.other[first]) + reach(p.columns, p.other[first + 1]));
  Defines defines;
  defines.set_dtype("DTYPE", p.dtype)
      .set("DTYPE_IS_F32", p.dtype == DType::f32)
      .set("REAL", p.dtype == DType::f64 ? "f64" : "f32")
      .set("REAL_IS_F64", p.dtype == DType::f64)
      .set("GRADIENT", p.gradient)
      .set("INDEX", farthest < INT32_MAX ? "i32" : "i64")
      .set("T", p.rows)
      .set("INNER", p.inner)
      .set("E", p.groups)
      .set("N", p.columns)
      .set("A_M", m_stride)
      .set("A_K", k_stride)
      .set("B_GROUP", p.gradient ? 0 : p.other[0])
      .set("B_K", p.other[first])
      .set("B_N", p.other[first + 1])
      .set("ENDS_0", p.ends);
  return defines;
}

GpuCandidate unit_candidate(const GroupedProblem& p, const GroupedUnitPoint& point) {
  const MatrixUnit& unit = *point.unit;
  Defines defines = defines_of(p);
  defines.set("BY_UNITS", 1)
      .set("UNIT_M", unit.m)
      .set("UNIT_N", unit.n)
      .set("UNIT_K", unit.k)
      .set("WAVE", unit.wave)
      .set("UNITS_M", point.units_m)
      .set("UNITS_N", point.units_n)
      .set("WAVES_M", point.waves_m)
      .set("WAVES_N", point.waves_n)
      .set("WORD_ELEMENTS", point.word_elements())
      .set("K_STEP", point.k_step);
  GpuLaunch launch{.name = "grouped_matmul",
                   .source = defines.text() + unit_text(point) + std::string(template_text("grouped_matmul")),
                   .groups = {slots_of(p, point) * ceil_div(p.columns, point.tile_n()), 1, 1},
                   .group_size = {point.items(), 1, 1},
                   .local_bytes = point.local_bytes(),
                   .arguments = {{0}, {1}, {2}, {3}},
                   .can_fault = true,
                   .compile_options = compile_options_for(unit)};
  return {.name = fmt::format("grouped {} {}x{}", unit.name, point.tile_m(), point.tile_n()),
          .parameters = {{"tile_m", point.tile_m()},
                         {"tile_n", point.tile_n()},
                         {"tile_k", point.k_step},
                         {"waves_m", point.waves_m},
                         {"waves_n", point.waves_n}},
          .launches = {std::move(launch)}};
}

GpuCandidate grouped_candidate(const GroupedProblem& p, const GroupedPoint& point) {
  Defines defines = defines_of(p);
  defines.set("BY_UNITS", 0)
      .set("ROWS", point.rows)
      .set("VECTORS", point.vectors)
      .set("WIDTH", std::to_string(point.width))
      .set("K_STEP", point.k_step)
      .set("A_PITCH", point.pitch());
  GpuLaunch launch{.name = "grouped_matmul",
                   .source = defines.text() +
                             (p.dtype == DType::f64 ? "" : vectors_text(p.dtype, point.width)) +
                             std::string(template_text("grouped_matmul")),
                   .groups = {slots_of(p, point) * ceil_div(p.columns, point.tile_n()), 1, 1},
                   .group_size = {point.group_x, point.group_y, 1},
                   .local_bytes = local_bytes_of(p, point),
                   .arguments = {{0}, {1}, {2}, {3}},
                   .can_fault = true};
  return {.name = fmt::format("grouped {}x{}", point.tile_m(), point.tile_n()),
          .parameters = {{"rows", point.rows},
                         {"vectors", point.vectors},
                         {"width", point.width},
                         {"group_x", point.group_x},
                         {"group_y", point.group_y},
                         {"k_step", point.k_step}},
          .launches = {std::move(launch)}};
}

}  // namespace

static std::vector<GpuCandidate> grouped_kernels(const KernelRequest& request, const GpuTraits& traits) {
  const bool gradient = request.op->name == "grouped_matmul_weight_grad";
  const OperandDesc &x = request.inputs[0], &other = request.inputs[1], &ends = request.inputs[2];
  const GroupedProblem p{gradient,   request.output().dtype, x.shape[0],
                         x.shape[1], ends.shape[0],          other.shape[gradient ? 1 : 2],
                         x.strides,  other.strides,          ends.strides[0]};
  std::vector<GpuCandidate> candidates;
  for (const GroupedUnitPoint& point : unit_points_of(p, traits))
    candidates.push_back(unit_candidate(p, point));
  for (const GroupedPoint& point : points_of(p, traits)) candidates.push_back(grouped_candidate(p, point));
  return candidates;
}

namespace {

[[maybe_unused]] const bool grouped_registered =
    register_template({{"grouped_matmul", "grouped_matmul_weight_grad"}, grouped_kernels, serves_groups});

}  // namespace

}  // namespace athanor::gpu
