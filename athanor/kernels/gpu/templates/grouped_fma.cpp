// The walk along k and the sums of grouped_matmul by FMA.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/grouped_kernel.h"

namespace athanor::gpu {

/// There are no vectors of f64.
std::string GroupedKernel::vector_type() const {
  return point_.width == 1 ? element_type() : fmt::format("f32x{}", point_.width);
}

/// An item's rows lie together.
std::string GroupedKernel::first_row() const {
  return point_.group_y == 1 ? "0" : times("LOCAL_ID(1)", point_.rows);
}

/// Its vectors lie a vector of each item apart, so that neighbouring items read neighbouring memory.
std::string GroupedKernel::column() const {
  return times(point_.group_x == 1 ? "v" : fmt::format("(v * {} + LOCAL_ID(0))", point_.group_x),
               point_.width);
}

std::string GroupedKernel::text() {
  begin();
  for (const Operand& operand : {a_, b_})
    code_.line(fmt::format("LOCAL __attribute__((aligned(64))) {} {}_tile[{}];", element_type(), operand.name,
                           point_.k_step * operand.pitch));
  code_.line(fmt::format("{} sums[{}][{}];", vector_type(), point_.rows, point_.vectors));
  code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
  code_.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", point_.vectors));
  code_.line(fmt::format("sums[r][v] = ({})(0);", vector_type()));
  code_.close();
  code_.close();
  code_.open(fmt::format("for (int k0 = k_begin; k0 < k_end; k0 += {})", point_.k_step));
  code_.line(fmt::format("const int k_count = MIN({}, k_end - k0);", point_.k_step));
  stage(a_);
  stage(b_);
  wait();
  multiply();
  wait();
  code_.close();
  store_sums();
  code_.close();
  return groups_.begin_of() + code_.text();
}

void GroupedKernel::wait() {
  if (point_.items() > 1) code_.line("BARRIER();");
}

std::string GroupedKernel::place(const Operand& operand) const {
  const std::string outer = fmt::format("{0}0 + {0}", operand.outer);
  return plus(strided(outer, operand.outer_stride, wide_), strided("k0 + k", operand.k_stride, wide_));
}

/// Each item fills some of an operand's tile.
void GroupedKernel::stage(const Operand& operand) {
  const int64_t k = point_.k_step;
  code_.open(fmt::format("for (int i = item; i < {}; i += {})", operand.tile * k, point_.items()));
  code_.line(operand.along_k
                 ? fmt::format("const int k = i % {0}, {1} = i / {0};", k, operand.outer)
                 : fmt::format("const int k = i / {0}, {1} = i % {0};", operand.tile, operand.outer));
  code_.line(fmt::format(
      "{0}_tile[k * {1} + {2}] = k < k_count && {2}0 + {2} < {3} ? LOAD({4}, {0}, {5}) : 0;", operand.name,
      operand.pitch, operand.outer, operand.end, language_name(p_.dtype), place(operand)));
  code_.close();
}

void GroupedKernel::multiply() {
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

std::string GroupedKernel::store(const std::string& column, const std::string& x) const {
  return fmt::format("if ({0} < {1}) STORE({2}, c, row * (i64){1} + {0}, {3});", column, p_.columns,
                     language_name(p_.dtype), x);
}

void GroupedKernel::store_sums() {
  code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
  code_.line(fmt::format("const int row = {} + r;", plus("m0", first_row())));
  code_.open("if (row < m_end)");
  code_.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", point_.vectors));
  code_.line(fmt::format("const int column = n0 + {};", column()));
  if (point_.width == 1) {
    code_.line(store("column", "sums[r][v]"));
  } else {
    code_.line(fmt::format("f32 lanes[{}];", point_.width));
    code_.line(fmt::format("VSTORE({}, lanes, 0, sums[r][v]);", point_.width));
    code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", point_.width));
    code_.line(store("column + i", "lanes[i]"));
    code_.close();
  }
  code_.close();
  code_.close();
  code_.close();
}

}  // namespace athanor::gpu
