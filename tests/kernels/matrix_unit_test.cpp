// Matrix units: one wave multiplies one pair of matrices, with lanes laid out as described by the unit. The
// numbers are small integers, so that every element is exact.
#include "athanor/kernels/gpu/matrix_unit.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/gpu/opencl_units.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

/// The "row" or "column" of the lane's first element, as an expression.
std::string lane_sum(const LaneLayout& layout, int LaneLayout::Cell::*along) {
  std::string sum = "0";
  for (size_t bit = 0; bit < layout.lane.size(); ++bit)
    sum += fmt::format(" + (lane >> {} & 1) * {}", bit, layout.lane[bit].*along);
  return sum;
}

/// Fills the registers `name` with the lane's elements of a matrix in memory: rows r and steps k of A, or
/// columns r and steps k of B.
std::string fill(const MatrixUnit& unit, char name, int registers, const std::string& place) {
  const LaneLayout& layout = name == 'a' ? unit.a : unit.b;
  const int bits = 8 * static_cast<int>(size_of(unit.input)), in_register = 32 / bits;
  std::string text = fmt::format("  u32 {}_part[{}];\n", name, registers);
  for (int r = 0; r < registers; ++r) text += fmt::format("  {}_part[{}] = 0;\n", name, r);
  for (int e = 0; e < layout.elements; ++e) {
    const LaneLayout::Cell cell = layout.at(0, e);
    text +=
        fmt::format("  {{ const int r = {} + {}, k = {} + {};\n", lane_sum(layout, &LaneLayout::Cell::row),
                    cell.row, lane_sum(layout, &LaneLayout::Cell::column), cell.column);
    const std::string element = fmt::format("{}[{}]", name, place);
    text += fmt::format("    {}_part[{}] |= (u32){} << {}; }}\n", name, e / in_register,
                        unit.input == DType::f32  ? fmt::format("BITS_OF_F32({})", element)
                        : unit.input == DType::i8 ? fmt::format("(u8){}", element)
                                                  : element,
                        e % in_register * bits);
  }
  return text;
}

std::string vector_of(char name, int registers) {
  if (registers == 1) return fmt::format("  const u32 {0}_all = {0}_part[0];\n", name);
  std::string text = fmt::format("  u32x{} {}_all;\n", registers, name);
  for (int r = 0; r < registers; ++r) text += fmt::format("  {0}_all[{1}] = {0}_part[{1}];\n", name, r);
  return text;
}

GpuCandidate one_wave(const MatrixUnit& unit) {
  const std::string in =
      unit.input == DType::f32 ? "f32" : fmt::format("STORED({})", language_name(unit.input));
  const std::string out(language_name(unit.output));
  std::string text = multiply_add_text(unit);
  text += fmt::format(
      "KERNEL void unit(BUFFER(const {0}, a), BUFFER(const {0}, b), BUFFER(const {1}, c), BUFFER({1}, d)) "
      "{{\n",
      in, out);
  for (const char* name : {"a", "b"}) text += fmt::format("  BIND(const {}, {});\n", in, name);
  text += fmt::format("  BIND(const {0}, c);\n  BIND({0}, d);\n  const int lane = LOCAL_ID(0);\n", out);
  text += fill(unit, 'a', unit.a_registers(), fmt::format("r * {} + k", unit.k));
  text += fill(unit, 'b', unit.b_registers(), fmt::format("k * {} + r", unit.n));
  text += fmt::format("  {}x{} sums;\n", unit.output == DType::i32 ? "i32" : "f32", unit.c.elements);
  const std::string at = fmt::format("({}) * {} + {}", lane_sum(unit.c, &LaneLayout::Cell::row), unit.n,
                                     lane_sum(unit.c, &LaneLayout::Cell::column));
  const auto place = [&](int e) { return unit.c.at(0, e).row * unit.n + unit.c.at(0, e).column; };
  for (int e = 0; e < unit.c.elements; ++e)
    text += fmt::format("  sums[{}] = c[{} + {}];\n", e, at, place(e));
  if (unit.takes_registers()) {
    std::string registers;
    for (int r = 0; r < unit.a_registers(); ++r) registers += fmt::format(", a_part[{}]", r);
    for (int r = 0; r < unit.b_registers(); ++r) registers += fmt::format(", b_part[{}]", r);
    text += fmt::format("  MULTIPLY_ADD(sums{});\n", registers);
  } else {
    text += vector_of('a', unit.a_registers()) + vector_of('b', unit.b_registers());
    text += "  MULTIPLY_ADD(sums, a_all, b_all);\n";
  }
  for (int e = 0; e < unit.c.elements; ++e)
    text += fmt::format("  d[{} + {}] = sums[{}];\n", at, place(e), e);
  GpuCandidate candidate{.name = std::string(unit.name)};
  candidate.launches.push_back({.name = "unit",
                                .source = text + "}\n",
                                .group_size = {unit.wave, 1, 1},
                                .arguments = {{0}, {1}, {2}, {3}}});
  return candidate;
}

/// `scale`: what the elements are multiplied by in memory. There is no -0.
TestOperand integers(DType dtype, const Shape& shape, unsigned seed, double scale = 1) {
  std::vector<double> values = random_values(shape.size(), seed, -8, 8);
  for (double& value : values) value = scale * std::round(value) + 0.0;
  TestOperand operand = make_value(dtype, shape, values);
  for (double& value : operand.values) value /= scale;
  return operand;
}

TEST(MatrixUnit, MultipliesAsItsLanesAreLaidOut) {
  ATHANOR_NEEDS_GPU();
  int tried = 0;
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    for (const MatrixUnit& unit : traits_of(device).matrix_units) {
      SCOPED_TRACE(unit.instruction);
      if (unit.reads_local()) continue;  // tested by GpuTiles.MatricesInLocalMemory
      if (virtual_gpu_lacks(unit)) continue;
      const int64_t m = unit.m, n = unit.n, k = unit.k;
      const double scale = unit.fnuz ? 2 : 1;
      const std::vector<TestOperand> inputs = {integers(unit.input, {m, k}, 1, scale),
                                               integers(unit.input, {k, n}, 2, scale),
                                               integers(unit.output, {m, n}, 3)};
      std::vector<double> want = inputs[2].values;
      for (int64_t row = 0; row < m; ++row)
        for (int64_t column = 0; column < n; ++column)
          for (int64_t step = 0; step < k; ++step)
            want[static_cast<size_t>(row * n + column)] +=
                inputs[0].values[static_cast<size_t>(row * k + step)] *
                inputs[1].values[static_cast<size_t>(step * n + column)];
      EXPECT_EQ(run_on(device, one_wave(unit), inputs, {unit.output, {m, n}, {}, contiguous_strides({m, n})}),
                want);
      ++tried;
    }
  }
  if (tried == 0) GTEST_SKIP() << "no device here has matrix units";
}

/// Every element of each matrix must be in some lane, and those of C in exactly one.
void expect_whole_matrices(const MatrixUnit& unit) {
  const auto covered = [&](const LaneLayout& layout, int rows, int columns) {
    std::vector<int> count(static_cast<size_t>(rows * columns));
    for (int lane = 0; lane < unit.wave; ++lane)
      for (int e = 0; e < layout.elements; ++e) {
        const LaneLayout::Cell cell = layout.at(lane, e);
        ++count.at(static_cast<size_t>(cell.row * columns + cell.column));
      }
    return count;
  };
  const std::vector<int> a = covered(unit.a, unit.m, unit.k), b = covered(unit.b, unit.n, unit.k),
                         c = covered(unit.c, unit.m, unit.n);
  for (const std::vector<int>& one : {a, b})
    EXPECT_EQ(std::ranges::count(one, 0), unit.reads_local() ? std::ssize(one) : 0) << unit.instruction;
  EXPECT_EQ(std::ranges::count(c, 1), std::ssize(c)) << unit.instruction;
}

TEST(MatrixUnit, LanesHoldWholeMatrices) {
  for (const auto& [target, architecture] : {std::pair{GpuTarget::hip, "gfx1100"},
                                             {GpuTarget::hip, "gfx1201"},
                                             {GpuTarget::hip, "gfx908"},
                                             {GpuTarget::hip, "gfx90a:sramecc+:xnack-"},
                                             {GpuTarget::hip, "gfx942"},
                                             {GpuTarget::hip, "gfx950"},
                                             {GpuTarget::cuda, "sm_70"},
                                             {GpuTarget::cuda, "sm_75"},
                                             {GpuTarget::cuda, "sm_90a"}}) {
    EXPECT_FALSE(matrix_units(target, architecture).empty()) << architecture;
    for (const MatrixUnit& unit : matrix_units(target, architecture)) expect_whole_matrices(unit);
  }
  for (const int lanes : {8, 16})
    for (const MatrixUnit& unit :
         opencl_units({.least_wave = lanes, .amd = true, .nvidia = true, .dots = true}))
      expect_whole_matrices(unit);
  EXPECT_TRUE(matrix_units(GpuTarget::hip, "gfx1030").empty());
  EXPECT_TRUE(matrix_units(GpuTarget::cuda, "sm_61").empty());
  EXPECT_TRUE(matrix_units(GpuTarget::opencl, "gfx1100").empty());
}

// A program has several kernels, and forgets what one defines before the next. So AMD's and NVIDIA's words
// come by an option, which all of its kernels share; a kernel must not take words of the language away.
TEST(MatrixUnit, OpenClKernelsOfAProgramShareTheirWords) {
  for (const MatrixUnit& unit : opencl_units({.amd = true, .nvidia = true, .dots = true})) {
    if (!unit.opencl) continue;
    EXPECT_EQ(multiply_add_text(unit).find("#undef"), std::string::npos) << unit.instruction;
    const bool amd = unit.instruction.starts_with("__builtin_amdgcn"),
               nvidia = unit.instruction.starts_with("mma");
    EXPECT_EQ(compile_options_for(unit), amd      ? "-DAMD_UNITS"
                                         : nvidia ? "-DNVIDIA_UNITS"
                                                  : "")
        << unit.instruction;
  }
}

// What docs/mixed-precision.md says of each: which products are no faster than in f32.
TEST(MatrixUnit, ProductsWithoutAnInstructionAreCalledSlow) {
  struct Case {
    GpuTarget target;
    const char* architecture;
    bool bf16, f16;  // slow
  };
  constexpr auto hip = GpuTarget::hip, cuda = GpuTarget::cuda;
  for (const Case& one : {Case{hip, "gfx900", true, true},
                          {hip, "gfx906:sramecc+:xnack-", true, false},
                          {hip, "gfx1010", true, true},
                          {hip, "gfx1012", true, false},
                          {hip, "gfx1030", true, false},
                          {hip, "gfx908", false, false},
                          {hip, "gfx942", false, false},
                          {hip, "gfx950", false, false},
                          {hip, "gfx1100", false, false},
                          {hip, "gfx1201", false, false},
                          {cuda, "sm_61", true, true},
                          {cuda, "sm_70", true, false},
                          {cuda, "sm_75", true, false},
                          {cuda, "sm_80", false, false},
                          {cuda, "sm_90a", false, false}}) {
    GpuTraits traits;
    add_architecture(traits, one.target, one.architecture);
    EXPECT_EQ(gpu_slow_in(DType::bf16, traits).empty(), !one.bf16) << one.architecture;
    EXPECT_EQ(gpu_slow_in(DType::f16, traits).empty(), !one.f16) << one.architecture;
  }
  // An OpenCL device, without units of which any multiplied right.
  EXPECT_EQ(gpu_slow_in(DType::f16, {}),
            "Athanor's kernels use no instruction for products of f16: they compute them in f32, at f32's "
            "speed. Activations still take half the memory");
}

// For HIP's cards with waves of 32 lanes, the driver counts pairs of compute units.
TEST(MatrixUnit, ArchitecturesHaveTheirCardsUnits) {
  const auto units = [](GpuTarget target, const char* architecture) {
    GpuTraits traits{.compute_units = 7};
    set_driver_facts(traits, target, architecture);
    return traits.compute_units;
  };
  EXPECT_EQ(units(GpuTarget::hip, "gfx1100"), 48);
  EXPECT_EQ(units(GpuTarget::hip, "gfx942"), 304);
  EXPECT_EQ(units(GpuTarget::cuda, "sm_80"), 108);
  EXPECT_EQ(units(GpuTarget::cuda, "sm_61"), 20);
  EXPECT_EQ(units(GpuTarget::cuda, "sm_52"), 7) << "no card is known: nothing changes";
}

}  // namespace
}  // namespace athanor::testing
