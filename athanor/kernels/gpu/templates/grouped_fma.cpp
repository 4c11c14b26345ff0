// grouped_matmul by FMA. An item has rows x vectors vectors of the result in registers.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/grouped_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// There are no vectors of f64.
std::string GroupedFma::vector_type() const {
  return point_.width == 1 ? element_type() : fmt::format("f32x{}", point_.width);
}

/// An item's rows lie together.
std::string GroupedFma::first_row() const {
  return point_.group_y == 1 ? "0" : times("LOCAL_ID(1)", point_.rows);
}

/// Its vectors lie a vector of each item apart, so that neighbouring items read neighbouring memory.
std::string GroupedFma::column() const {
  return times(point_.group_x == 1 ? "v" : fmt::format("(v * {} + LOCAL_ID(0))", point_.group_x),
               point_.width);
}

std::string GroupedFma::text() {
  begin(point_.items() == 1   ? "0"
        : point_.group_y == 1 ? "LOCAL_ID(0)"
                              : fmt::format("LOCAL_ID(1) * {} + LOCAL_ID(0)", point_.group_x));
  const int64_t a_pitch = point_.pitch(), b_pitch = point_.tile_n();
  for (const auto& [name, pitch] : {std::pair{a_.name, a_pitch}, std::pair{b_.name, b_pitch}})
    code_.line(fmt::format("LOCAL __attribute__((aligned(64))) {} {}_tile[{}];", element_type(), name,
                           point_.k_step * pitch));
  code_.line(fmt::format("{} sums[{}][{}];", vector_type(), point_.rows, point_.vectors));
  code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
  code_.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", point_.vectors));
  code_.line(fmt::format("sums[r][v] = ({})(0);", vector_type()));
  code_.close();
  code_.close();
  open_steps();
  stage_element(a_, a_pitch);
  stage_element(b_, b_pitch);
  wait();
  multiply();
  close_steps();
  store_sums();
  code_.close();
  return code_.text();
}

void GroupedFma::stage_element(const Operand& operand, int64_t pitch) {
  stage(operand, point_.k_step, "k", [&] {
    code_.line(fmt::format("{0}_tile[k * {1} + {2}] = {3} ? LOAD({4}, {0}, {5}) : 0;", operand.name, pitch,
                           operand.outer, exists(operand, "k"), language_name(p_.dtype),
                           place(operand, "k")));
  });
}

void GroupedFma::multiply() {
  const auto each_vector = [&](const std::string& statement) {
    code_.line(fmt::format("UNROLL for (int v = 0; v < {}; ++v) {}", point_.vectors, statement));
  };
  const std::string b_at = fmt::format("k * {} + {}", point_.tile_n(), column());
  code_.open("for (int k = 0; k < k_count; ++k)");
  code_.line(fmt::format("{} b_row[{}];", vector_type(), point_.vectors));
  each_vector(point_.width == 1 ? fmt::format("b_row[v] = b_tile[{}];", b_at)
                                : fmt::format("b_row[v] = VLOAD({}, b_tile, {});", point_.width, b_at));
  code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
  code_.line(fmt::format("const {} a_element = a_tile[{} + r];", element_type(),
                         plus(fmt::format("k * {}", point_.pitch()), first_row())));
  each_vector(p_.dtype == DType::f64
                  ? std::string("sums[r][v] = a_element * b_row[v] + sums[r][v];")
                  : fmt::format("sums[r][v] = VFMA({}, a_element, b_row[v], sums[r][v]);", point_.width));
  code_.close();
  code_.close();
}

void GroupedFma::store_sums() {
  code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
  code_.line(fmt::format("const int row = {} + r;", plus("m0", first_row())));
  code_.open("if (row < m_end)");
  code_.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", point_.vectors));
  code_.line(fmt::format("const int column = n0 + {};", column()));
  if (point_.width == 1) {
    code_.line(fmt::format("if (column < {}) {}", p_.columns, store("row", "column", "sums[r][v]")));
  } else {
    code_.line(fmt::format("f32 lanes[{}];", point_.width));
    code_.line(fmt::format("VSTORE({}, lanes, 0, sums[r][v]);", point_.width));
    code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", point_.width));
    code_.line(fmt::format("if (column + i < {}) {}", p_.columns, store("row", "column + i", "lanes[i]")));
    code_.close();
  }
  code_.close();
  code_.close();
  code_.close();
}

}  // namespace athanor::gpu
