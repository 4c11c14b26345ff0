// Lanes of NVIDIA's matrix units have two neighbouring columns of every eight of C, and four lanes share a
// row. They exchange elements of several eights, so that each lane has neighbours of one eight and stores
// longer runs.
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

}  // namespace athanor::gpu
