// The epilogue of C's elements on their way from registers to memory: where an element lies, and what it
// becomes. Operands whose elements for a run lie together are read at once.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/result_vectors.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

std::string TileKernel::place_of(const std::string& row, const std::string& column) const {
  return row_.place("c_row_at", row_.even() ? row : "m0 + " + row) + " + " +
         column_.place("c_column_at", column_.even() ? column : "n0 + " + column);
}

/// "if (...)", or "" if all elements are inside.
std::string TileKernel::if_inside(const std::string& row, const std::string& column, bool splits) const {
  std::string inside;
  const auto add = [&](const std::string& one) { inside += (inside.empty() ? "" : " && ") + one; };
  if (ragged_m()) add(fmt::format("m0 + {} < {}", row, m_end()));
  if (ragged_n()) add(fmt::format("n0 + {} < {}", column, n_end()));
  if (!splits)
    for (const auto& [axis, at] : {std::pair{&row_, "m0 + " + row}, {&column_, "n0 + " + column}})
      if (!axis->stores_all()) add(fmt::format("({}) % {} < {}", at, axis->run(), axis->stored()));
  return inside.empty() ? "" : fmt::format("if ({})", inside);
}

/// Reads vectors for the run of elements that begins at this row and column, under a condition if it is not
/// "".
void TileKernel::read_vectors(const std::string& run, const std::string& row, const std::string& column,
                              const std::string& condition) {
  if (vectors_.empty()) return;
  declare_vectors(code_, vectors_, run);
  if (!condition.empty()) code_.open(condition);
  gpu::read_vectors(code_, p_.epilogue, vectors_, run, "c_first + " + place_of(row, column), "m0 + " + row,
                    "n0 + " + column);
  if (!condition.empty()) code_.close();
}

/// What element r of that run becomes, as an expression.
std::string TileKernel::finished(const std::string& run, int64_t r, const std::string& x,
                                 const std::string& row, const std::string& column) const {
  std::string row_index = "m0 + " + row, column_index = "n0 + " + column;
  if (r > 0) {
    std::string& index = row_.stride() == 1 ? row_index : column_index;
    index = index_along(row, column, r);
    // What is behind the last element is computed for the padding, and other operands have none.
    if (along().padding() > 0) index = fmt::format("MIN({}, {})", index, along().extent() - 1);
  }
  return p_.epilogue.call(x, plus(fmt::format("c_first + {}", place_of(row, column)), r), row_index,
                          column_index, elements_of(vectors_, run, r));
}

/// The index along C's rows or columns, whichever run in memory, of element r of the run that begins at a row
/// and column.
std::string TileKernel::index_along(const std::string& row, const std::string& column, int64_t r) const {
  return row_.stride() == 1 ? plus("m0 + " + row, r) : plus("n0 + " + column, r);
}

}  // namespace athanor::gpu
