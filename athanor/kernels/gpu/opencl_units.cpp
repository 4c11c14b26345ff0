#include "athanor/kernels/gpu/opencl_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {
namespace {

using Cell = LaneLayout::Cell;
using enum DType;
using Form = MatrixUnit::Form;

// ---- Intel: cl_intel_subgroup_matrix_multiply_accumulate. Matrices of 8 rows; 32 bytes along k.

/// A: a lane has `steps` steps along k of all rows.
constexpr LaneLayout dpas_a(int wave, int steps) {
  LaneLayout layout{.elements = 8 * steps};
  size_t bit = 0, e = 0;
  for (int lane = 1; lane < wave; lane *= 2) layout.lane[bit++] = {0, lane * steps};
  for (int step = 1; step < steps; step *= 2) layout.element[e++] = {0, step};
  for (int row = 1; row < 8; row *= 2) layout.element[e++] = {row, 0};
  return layout;
}
/// B: a lane has a column.
constexpr LaneLayout dpas_b(int wave, int k) {
  LaneLayout layout{.elements = k};
  size_t bit = 0, e = 0;
  for (int lane = 1; lane < wave; lane *= 2) layout.lane[bit++] = {lane, 0};
  for (int step = 1; step < k; step *= 2) layout.element[e++] = {0, step};
  return layout;
}
constexpr LaneLayout dpas_c(int wave) {
  LaneLayout layout{8, {}, {Cell{1, 0}, {2, 0}, {4, 0}}};
  size_t bit = 0;
  for (int lane = 1; lane < wave; lane *= 2) layout.lane[bit++] = {0, lane};
  return layout;
}

constexpr MatrixUnit dpas(std::string_view name, std::string_view function, int wave, DType in, DType out) {
  const int k = 32 / static_cast<int>(size_of(in));
  MatrixUnit unit{name,
                  function,
                  Form::dpas,
                  8,
                  wave,
                  k,
                  wave,
                  in,
                  out,
                  wave == 8 ? "int8" : "short8",
                  dpas_a(wave, k / wave),
                  dpas_b(wave, k),
                  dpas_c(wave)};
  unit.opencl = true;
  return unit;
}

constexpr std::array of_8_lanes = {
    dpas("dpas 8x8x16", "intel_sub_group_f16_f16_matrix_mad_k16", 8, f16, f32),
    dpas("dpas 8x8x16", "intel_sub_group_bf16_bf16_matrix_mad_k16", 8, bf16, f32),
    dpas("dpas 8x8x32", "intel_sub_group_i8_i8_matrix_mad_k32", 8, i8, i32)};
constexpr std::array of_16_lanes = {
    dpas("dpas 8x16x16", "intel_sub_group_f16_f16_matrix_mad_k16", 16, f16, f32),
    dpas("dpas 8x16x16", "intel_sub_group_bf16_bf16_matrix_mad_k16", 16, bf16, f32),
    dpas("dpas 8x16x32", "intel_sub_group_i8_i8_matrix_mad_k32", 16, i8, i32)};

std::string dpas_text(const MatrixUnit& unit) {
  return fmt::format(
      "#undef WAVE_ATTRIBUTE\n"
      "#define WAVE_ATTRIBUTE __attribute__((intel_reqd_sub_group_size({})))\n"
      "#define MULTIPLY_ADD(c, a, b) ((c) = {}(as_{}(a), as_int8(b), (c)))\n",
      unit.wave, unit.instruction, unit.operand);
}

// ---- AMD: Clang's built-ins, as HIP has them.

int bytes_of_operand(std::string_view type) {
  return type == "long" ? 8 : type == "int" || type == "float" ? 4 : 2;
}

std::string amd_opencl_text(const MatrixUnit& unit) {
  const std::string_view type = unit.operand == "_Float16" ? "half" : unit.operand;
  const int bytes = unit.form == Form::dot ? 4 : 4 * unit.a_registers();
  const int count = bytes / bytes_of_operand(unit.operand);
  std::string text = type == "half" ? "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" : "";
  text += fmt::format("typedef {}{} unit_operand;\n", type, count == 1 ? "" : std::to_string(count));
  const std::string a = "__builtin_astype(a, unit_operand)", b = "__builtin_astype(b, unit_operand)";
  std::string arguments = fmt::format("{}, {}, (c)", a, b);
  if (unit.form == Form::mfma) arguments += ", 0, 0, 0";
  if (unit.form == Form::wmma_bytes) arguments = fmt::format("true, {}, true, {}, (c), false", a, b);
  if (unit.form == Form::dot) arguments += ", false";
  return text + fmt::format("#define MULTIPLY_ADD(c, a, b) ((c) = {}({}))\n", unit.instruction, arguments);
}

// ---- NVIDIA: PTX in inline assembly.

/// "f32 c0 = (*c)[0], ..."
std::string listed(int count, std::string_view form) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", fmt::format(fmt::runtime(form), i));
  return text;
}

std::string nvidia_opencl_text(const MatrixUnit& unit) {
  const std::string_view type = unit.output == i32 ? "i32" : "f32";
  const int c = unit.c.elements, a = unit.a_registers(), b = unit.b_registers();
  const auto places = [](int first, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("{}%{}", i == 0 ? "" : ", ", first + i);
    return text;
  };
  std::string text = "#if !defined(__NVPTX__) && !defined(__NV_CL_C_VERSION)\n#error no PTX\n#endif\n";
  text += fmt::format("DEVICE {0}x{1} multiplied({0}x{1} c, {2}, {3}) {{\n  {0} {4};\n", type, c,
                      listed(a, "u32 a{0}"), listed(b, "u32 b{0}"), listed(c, "c{0} = c[{0}]"));
  text += fmt::format(
      "  __asm__ volatile(\"{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\"\n"
      "                   : {}\n"
      "                   : {}, {});\n"
      "  return ({}x{})({});\n}}\n",
      unit.instruction, places(0, c), places(c, a), places(c + a, b), places(0, c),
      listed(c, unit.output == i32 ? "\"+r\"(c{0})" : "\"+f\"(c{0})"), listed(a, "\"r\"(a{0})"),
      listed(b, "\"r\"(b{0})"), type, c, listed(c, "c{0}"));
  return text + fmt::format("#define MULTIPLY_ADD(c, {0}, {1}) ((c) = multiplied((c), {0}, {1}))\n",
                            listed(a, "a{0}"), listed(b, "b{0}"));
}

// ---- Every vendor: cl_khr_integer_dot_product.

constexpr std::string_view dot_of_bytes = "dot_4x8packed_ss_int";

}  // namespace

std::vector<MatrixUnit> opencl_units(const OpenClHints& hints) {
  std::vector<MatrixUnit> all;
  const auto add = [&](std::span<const MatrixUnit> units) {
    for (const MatrixUnit& unit : units) {
      const bool known = std::ranges::count(all, unit.instruction, &MatrixUnit::instruction) > 0;
      if (known || unit.reads_local() || unit.form == Form::fma) continue;
      all.push_back(unit);
      all.back().opencl = true;
    }
  };
  if (hints.least_wave == 8) add(of_8_lanes);
  if (hints.least_wave == 16) add(of_16_lanes);
  // Units of newer chips come first: an older chip's compiler refuses them.
  constexpr std::array amd = {"gfx1200", "gfx1100", "gfx942", "gfx90a", "gfx908"};
  constexpr std::array nvidia = {"sm_89", "sm_75"};
  for (const char* chip : amd)
    if (hints.amd) add(matrix_units(GpuTarget::hip, chip));
  for (const char* chip : nvidia)
    if (hints.nvidia) add(matrix_units(GpuTarget::cuda, chip));
  const auto dots = lane_units(GpuTarget::hip, "gfx1030");
  MatrixUnit bytes = *std::ranges::find(dots, i8, &MatrixUnit::input);
  bytes.instruction = dot_of_bytes;
  if (hints.dots) add({&bytes, 1});
  if (hints.amd) add(dots);
  const auto lanes = lane_units(GpuTarget::opencl, "");
  all.insert(all.end(), lanes.begin(), lanes.end());
  for (MatrixUnit& unit : all)
    if (unit.of_lanes()) unit.flops_cycle = 0;  // how many lanes a compute unit has is not known
  return all;
}

std::string opencl_multiply_add_text(const MatrixUnit& unit) {
  if (unit.form == Form::dpas) return dpas_text(unit);
  if (unit.form == Form::mma) return nvidia_opencl_text(unit);
  if (unit.instruction == dot_of_bytes)
    return fmt::format("#define MULTIPLY_ADD(c, a, b) ((c) += {}((a), (b)))\n", dot_of_bytes);
  return amd_opencl_text(unit);
}

std::string_view opencl_compile_options(const MatrixUnit& unit) {
  // By default kernels get 128 of Intel's registers, and one with this unit would spill.
  if (unit.form == Form::dpas) return "-cl-intel-256-GRF-per-thread";
  if (unit.form == Form::mma) return "-DNVIDIA_UNITS";
  return unit.instruction == dot_of_bytes ? "" : "-DAMD_UNITS";
}

}  // namespace athanor
