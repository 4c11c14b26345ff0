// Lanes of NVIDIA's matrix units have two neighbouring columns of every eight of C, and four lanes share a
// row. They exchange elements of several eights, so that each lane has neighbours of one eight and stores
// longer runs. Lanes of RDNA3's units have every second row of eight, and exchange them with those of the
// other half of the wave.
#pragma once
#include <fmt/format.h>

#include <string>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor::gpu {

/// Exchanges `registers` of each of `pairs` eights: values[eight][register] becomes values[pair][register].
inline void exchange_pairs(Code& code, const std::string& values, int64_t pairs, int64_t registers) {
  for (int64_t step = 1; step < pairs; step *= 2)
    for (int64_t f = 0; f < pairs; ++f)
      for (int64_t r = 0; (f & step) == 0 && r < registers; ++r)
        code.line(fmt::format("EXCHANGE({0}[{1}], {0}[{2}], lane, {3});", values, f * registers + r,
                              (f + step) * registers + r, step));
}

/// The layout after the exchange.
inline LaneLayout behind_exchange(LaneLayout layout, int64_t pairs) {
  for (int bit = 0; 1 << bit < pairs; ++bit) layout.lane[static_cast<size_t>(bit)].column = 8 << bit;
  return layout;
}

/// Exchanges the eight elements of a vector between the halves of a wave (MatrixUnit::interleaves_halves()).
inline void exchange_halves(Code& code, const std::string& vector, bool floats) {
  constexpr int half = 4;
  code.open("");
  std::string all;
  for (int e = 0; e < 2 * half; ++e)
    all += fmt::format("{}{}({}[{}])", e == 0 ? "" : ", ", floats ? "BITS_OF_F32" : "(u32)", vector, e);
  code.line(fmt::format("u32 halves[{}] = {{{}}};", 2 * half, all));
  for (int e = 0; e < half; ++e)
    code.line(fmt::format("EXCHANGE(halves[{}], halves[{}], lane, 16);", e, e + half));
  for (int e = 0; e < 2 * half; ++e)
    code.line(fmt::format("{}[{}] = {}(halves[{}]);", vector, e, floats ? "F32_OF_BITS" : "(i32)",
                          e / 2 + e % 2 * half));
  code.close();
}

/// The layout after that: a lane has eight neighbouring rows.
inline LaneLayout behind_halves(LaneLayout layout) {
  layout.element = {LaneLayout::Cell{1, 0}, {2, 0}, {4, 0}};
  layout.lane[4] = {8, 0};
  return layout;
}

}  // namespace athanor::gpu
