// grouped_matmul by matrix units. Tiles in local memory have rows of A and columns of B, each with its steps
// along k together.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/grouped_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

std::string GroupedUnits::text() {
  begin("LOCAL_ID(0)");
  for (const Operand& operand : {a_, b_})
    code_.line(fmt::format("LOCAL __attribute__((aligned(64))) u32 {}_tile[{}];", operand.name,
                           operand.tile * point_.pitch()));
  find_lane();
  code_.line(fmt::format("f32x{} sums[{}][{}];", unit_.c.elements, point_.units_m, point_.units_n));
  open_sums();
  code_.line(fmt::format("sums[i][j] = (f32x{})(0);", unit_.c.elements));
  close_sums();
  open_steps();
  stage_words(a_);
  stage_words(b_);
  wait();
  multiply();
  close_steps();
  store_sums();
  code_.close();
  return code_.text();
}

void GroupedUnits::find_lane() {
  const int64_t wave = unit_.wave;
  const auto first = [](int64_t waves, const std::string& number, int64_t each) {
    return waves == 1 ? "0" : fmt::format("{} * {}", number, each);
  };
  code_.line(fmt::format("const int lane = item % {};", wave));
  code_.line(fmt::format(
      "const int wave_m = {}, wave_n = {};",
      first(point_.waves_m, fmt::format("item / {} % {}", wave, point_.waves_m), point_.units_m * unit_.m),
      first(point_.waves_n, fmt::format("item / {}", wave * point_.waves_m), point_.units_n * unit_.n)));
}

void GroupedUnits::stage_words(const Operand& operand) {
  const int64_t each = point_.word_elements();
  const std::string k = each == 1 ? "word" : "k",
                    element = fmt::format("{}[{}]", operand.name, place(operand, k));
  stage(operand, point_.words(), "word", [&] {
    code_.line("u32 bits = 0;");
    if (each == 1) {
      code_.line(fmt::format("if ({}) bits = BITS_OF_F32({});", exists(operand, k), element));
    } else {
      code_.open(fmt::format("UNROLL for (int k = word * {0}; k < (word + 1) * {0}; ++k)", each));
      code_.line(fmt::format("if ({}) bits |= (u32){} << (k % {} * {});", exists(operand, k), element, each,
                             32 / each));
      code_.close();
    }
    code_.line(fmt::format("{}_tile[{} * {} + word] = bits;", operand.name, operand.outer, point_.pitch()));
  });
}

void GroupedUnits::open_sums() {
  code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", point_.units_m));
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", point_.units_n));
}

void GroupedUnits::close_sums() {
  code_.close();
  code_.close();
}

/// An operand's registers of the wave's units, from the words k on.
void GroupedUnits::read_parts(const Operand& operand, const LaneLayout& layout, int registers, int64_t units,
                              int64_t outer) {
  const bool one = registers == 1;
  code_.line(one                  ? fmt::format("u32 {}_part[{}];", operand.name, units)
             : single_registers() ? fmt::format("u32 {}_part[{}][{}];", operand.name, units, registers)
                                  : fmt::format("u32x{} {}_part[{}];", registers, operand.name, units));
  code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", units));
  // The place is not kept from before the loops: LLVM then reads ahead, into more registers.
  const std::string row =
      plus(fmt::format("wave_{} + i * {}", operand.outer, outer), lane_part(layout, &LaneLayout::Cell::row));
  const auto in_word = static_cast<int>(point_.word_elements());
  code_.line(fmt::format("const int at = {};", plus(fmt::format("({}) * {} + k", row, point_.pitch()),
                                                    lane_part(layout, &LaneLayout::Cell::column, in_word))));
  for (int r = 0; r < registers; ++r) {
    const LaneLayout::Cell cell = layout.at(0, r * in_word);
    code_.line(fmt::format("{0}_part[i]{1} = {0}_tile[{2}];", operand.name, one ? "" : fmt::format("[{}]", r),
                           plus("at", cell.row * point_.pitch() + cell.column / in_word)));
  }
  code_.close();
}

void GroupedUnits::multiply() {
  const int a_registers = unit_.a_registers(), b_registers = unit_.b_registers();
  const auto part = [&](const std::string& name, int registers) {
    if (!single_registers() || registers == 1) return ", " + name;
    std::string text;
    for (int r = 0; r < registers; ++r) text += fmt::format(", {}[{}]", name, r);
    return text;
  };
  code_.open(fmt::format("UNROLL for (int k = 0; k < {}; k += {})", point_.words(),
                         unit_.k / point_.word_elements()));
  read_parts(a_, unit_.a, a_registers, point_.units_m, unit_.m);
  read_parts(b_, unit_.b, b_registers, point_.units_n, unit_.n);
  open_sums();
  code_.line(fmt::format("MULTIPLY_ADD(sums[i][j]{}{});", part("a_part[i]", a_registers),
                         part("b_part[j]", b_registers)));
  close_sums();
  code_.close();
}

void GroupedUnits::store_sums() {
  open_sums();
  code_.line(fmt::format("const int row = {} + i * {}, column = {} + j * {};",
                         plus("m0 + wave_m", lane_part(unit_.c, &LaneLayout::Cell::row)), unit_.m,
                         plus("n0 + wave_n", lane_part(unit_.c, &LaneLayout::Cell::column)), unit_.n));
  for (int e = 0; e < unit_.c.elements; ++e) {
    const LaneLayout::Cell cell = unit_.c.at(0, e);
    const std::string row = plus("row", cell.row), column = plus("column", cell.column);
    code_.line(
        fmt::format("if ({} < m_end && {} < {}) {}", row, column, p_.columns,
                    store(cell.row == 0 ? row : "(" + row + ")", column, fmt::format("sums[i][j][{}]", e))));
  }
  close_sums();
}

}  // namespace athanor::gpu
