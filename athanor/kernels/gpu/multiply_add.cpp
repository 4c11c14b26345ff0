// MULTIPLY_ADD of the kernel language: how a unit's instruction is written, by Clang's built-ins on AMD and
// in PTX on NVIDIA.
#include <fmt/format.h>

#include "athanor/kernels/gpu/matrix_unit.h"
#include "athanor/kernels/gpu/opencl_units.h"

namespace athanor {
namespace {

using Form = MatrixUnit::Form;

/// "f32x8": the language's name of C's vector.
std::string sums_type(const MatrixUnit& unit) {
  return fmt::format("{}x{}", unit.output == DType::i32 ? "i32" : "f32", unit.c.elements);
}

std::string vector_of(std::string_view type, int count) {
  return count == 1
             ? fmt::format("typedef {} unit_operand;\n", type)
             : fmt::format("typedef {} unit_operand __attribute__((ext_vector_type({})));\n", type, count);
}

/// Bytes of the built-in's operand type.
int operand_bytes(const MatrixUnit& unit) {
  return unit.operand == "long" ? 8 : unit.operand == "int" || unit.operand == "float" ? 4 : 2;
}

std::string builtin_text(const MatrixUnit& unit) {
  const int registers = unit.a_registers();
  const std::string registers_type = registers == 1 ? "u32" : fmt::format("u32x{}", registers);
  std::string text = vector_of(unit.operand, registers * 4 / operand_bytes(unit));
  const std::string a = "__builtin_bit_cast(unit_operand, a)", b = "__builtin_bit_cast(unit_operand, b)";
  const std::string call = unit.form == Form::mfma
                               ? fmt::format("{}({}, {}, c, 0, 0, 0)", unit.instruction, a, b)
                           : unit.form == Form::wmma_bytes
                               ? fmt::format("{}(true, {}, true, {}, c, false)", unit.instruction, a, b)
                               : fmt::format("{}({}, {}, c)", unit.instruction, a, b);
  return text + fmt::format("DEVICE void MULTIPLY_ADD({1} &c, {0} a, {0} b) {{ c = {2}; }}\n", registers_type,
                            sums_type(unit), call);
}

/// The instruction for `rows` of the unit's rows, from row `first` on. In an element's number and in a
/// register's, every second pair or register belongs to the rows from 8 on.
std::string ptx_instruction(const MatrixUnit& unit, int first, int rows) {
  const std::string constraint = unit.output == DType::i32 ? "r" : "f";
  std::string results, outputs, inputs, listed;
  int operand = 0;
  for (int e = 0; e < unit.c.elements; ++e) {
    const int row = unit.c.at(0, e).row - first;
    if (row < 0 || row >= rows) continue;
    results += fmt::format("{}%{}", operand > 0 ? ", " : "", operand);
    outputs += fmt::format("{}\"+{}\"(c[{}])", operand > 0 ? ", " : "", constraint, e);
    ++operand;
  }
  const auto list = [&](char letter, const LaneLayout& layout, bool all) {
    const int of_register = 4 / static_cast<int>(size_of(unit.input));
    std::string registers;
    for (int r = 0; r < layout.elements / of_register; ++r) {
      const int row = layout.at(0, r * of_register).row - first;
      if (!all && (row < 0 || row >= rows)) continue;
      registers += fmt::format("{}%{}", registers.empty() ? "" : ", ", operand++);
      inputs += fmt::format("{}\"r\"({}{})", inputs.empty() ? "" : ", ", letter, r);
    }
    listed += ", {" + registers + "}";
  };
  list('a', unit.a, false);
  list('b', unit.b, true);
  return fmt::format(
      "  asm(\"{} {{{}}}{}, {{{}}};\"\n"
      "      : {}\n"
      "      : {});\n",
      unit.instruction, results, listed, results, outputs, inputs);
}

std::string ptx_text(const MatrixUnit& unit) {
  std::string parameters, instructions;
  for (const auto& [letter, count] : {std::pair{'a', unit.a_registers()}, {'b', unit.b_registers()}})
    for (int r = 0; r < count; ++r) parameters += fmt::format(", u32 {}{}", letter, r);
  const int rows = unit.instruction.find("m8n8k16") != std::string_view::npos ? 8 : 16;
  for (int first = 0; first < unit.m; first += rows) instructions += ptx_instruction(unit, first, rows);
  return fmt::format("DEVICE void MULTIPLY_ADD({} &c{}) {{\n{}}}\n", sums_type(unit), parameters,
                     instructions);
}

/// MULTIPLY_ADD, or MULTIPLY.
std::string local_ptx_text(const MatrixUnit& unit, bool adds) {
  std::string results, outputs;
  const int count = unit.c.elements;
  const bool integers = unit.output == DType::i32;
  for (int e = 0; e < count; ++e) {
    results += fmt::format("{}%{}", e > 0 ? ", " : "", e);
    outputs += fmt::format("{}\"{}{}\"(c[{}])", e > 0 ? ", " : "", adds ? '+' : '=', integers ? "r" : "f", e);
  }
  // Those of floats have signs of A and B, too.
  const std::string signs = integers ? "" : ", 1, 1";
  const std::string along = unit.turns_local() ? fmt::format(", %{}, %{}", count + 3, count + 4) : "";
  return fmt::format(
      "template <int ALONG_ROWS, int ALONG_COLUMNS>\n"
      "DEVICE void {}({} &c, u64 a, u64 b) {{\n"
      "  asm volatile(\"{{ .reg .pred add; setp.ne.b32 add, %{}, 0;\"\n"
      "      \"{} {{{}}}, %{}, %{}, add{}{}; }}\"\n"
      "      : {}\n"
      "      : \"l\"(a), \"l\"(b), \"r\"({}), \"n\"(ALONG_ROWS), \"n\"(ALONG_COLUMNS));\n"
      "}}\n",
      adds ? "MULTIPLY_ADD" : "MULTIPLY", sums_type(unit), count + 2, unit.instruction, results, count,
      count + 1, signs, along, outputs, adds ? 1 : 0);
}

}  // namespace

std::string compile_options_for(const MatrixUnit& unit) {
  return unit.opencl ? std::string(opencl_compile_options(unit)) : "";
}

std::string multiply_add_text(const MatrixUnit& unit) {
  if (unit.form == Form::fma) return {};
  if (unit.opencl) return opencl_multiply_add_text(unit);
  if (unit.input == DType::i8 && unit.form == Form::dot) {
    // (NVRTC 11's __dp4a does not link for sm_61.)
    const std::string sum =
        unit.operand.empty()
            ? fmt::format("asm(\"{} %0, %1, %2, %0;\" : \"+r\"(c) : \"r\"(a), \"r\"(b))", unit.instruction)
            : fmt::format("c = {}((i32)a, (i32)b, c, false)", unit.instruction);
    return fmt::format("DEVICE void MULTIPLY_ADD(i32 &c, u32 a, u32 b) {{ {}; }}\n", sum);
  }
  if (unit.mixes())
    return vector_of(unit.operand, 2) +
           "DEVICE void MULTIPLY_ADD(f32 &c, u32 a, u32 b) {\n"
           "  const unit_operand x = __builtin_bit_cast(unit_operand, a), y = "
           "__builtin_bit_cast(unit_operand, b);\n"
           "  c = __builtin_fmaf((f32)x[0], (f32)y[0], c);\n"
           "  c = __builtin_fmaf((f32)x[1], (f32)y[1], c);\n"
           "}\n";
  if (unit.form == Form::dot)
    return vector_of(unit.operand, 2) + fmt::format(
                                            "DEVICE void MULTIPLY_ADD(f32 &c, u32 a, u32 b) {{\n"
                                            "  c = {}(__builtin_bit_cast(unit_operand, a), "
                                            "__builtin_bit_cast(unit_operand, b), c, false);\n"
                                            "}}\n",
                                            unit.instruction);
  if (unit.reads_local())
    return local_ptx_text(unit, true) + (unit.promotes_after > 0 ? local_ptx_text(unit, false) : "");
  return unit.takes_registers() ? ptx_text(unit) : builtin_text(unit);
}

}  // namespace athanor
