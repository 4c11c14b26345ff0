// MULTIPLY_ROWS of the kernel language: a matrix unit of four waves (wgmma) for kernels whose waves have
// rows of their own, with C in pieces of eight columns and A in registers, if it is not in local memory.
#include <fmt/format.h>

#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor {

std::string MultiplyRows::name() const {
  return fmt::format("MULTIPLY_ROWS{}{}", add ? "_ADD" : "", turned ? "_TURNED" : "");
}

std::string multiply_rows_text(const MatrixUnit& unit, const MultiplyRows& what) {
  // The table has units for some numbers of columns; the instruction takes any eights.
  std::string instruction(unit.instruction);
  const std::string columns = fmt::format("n{}k", unit.n);
  instruction.replace(instruction.find(columns), columns.size(), fmt::format("n{}k", what.columns));
  std::string results, outputs;
  const int count = what.columns / 2;
  for (int e = 0; e < count; ++e) {
    results += fmt::format("{}%{}", e > 0 ? ", " : "", e);
    outputs += fmt::format("{}\"{}f\"(c[{}][{}])", e > 0 ? ", " : "", what.add ? '+' : '=', e / 4, e % 4);
  }
  int operand = count;
  const int a = operand;
  operand += what.local ? 1 : 4;
  const int b = operand;
  return fmt::format(
      "DEVICE void {}(f32x4 (&c)[{}], {}, u64 b) {{\n"
      "  asm volatile(\"{{ .reg .pred add; setp.ne.b32 add, {}, 0;\"\n"
      "      \"{} {{{}}}, {}, %{}, add, 1, 1, {}; }}\"\n"
      "      : {}\n"
      "      : {}, \"l\"(b));\n"
      "}}\n",
      what.name(), what.columns / 8, what.local ? "u64 a" : "u32 a0, u32 a1, u32 a2, u32 a3",
      what.add ? 1 : 0, instruction, results,
      what.local ? fmt::format("%{}", a) : fmt::format("{{%{}, %{}, %{}, %{}}}", a, a + 1, a + 2, a + 3), b,
      what.local    ? fmt::format("0, {}", what.turned ? 1 : 0)
      : what.turned ? "1"
                    : "0",
      outputs, what.local ? "\"l\"(a)" : "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3)");
}

}  // namespace athanor
