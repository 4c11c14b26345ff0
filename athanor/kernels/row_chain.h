// Chains of loops over the same rows, which run one after the other, row by row: the sums of a norm and its
// end; the gradients of its input and, as sums over rows, those of its weights.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// What a loop of a chain reduces.
enum class RowRole : uint8_t {
  map,      // nothing
  rows,     // each row, to one result
  columns,  // all rows, to one: such results are complete behind the chain
};

/// Loops over the same space. Its last dimension is a row, the others number the rows.
struct RowChain {
  std::vector<LoopProgram> loops;
  std::vector<RowRole> roles;  // of each loop

  const Ints& space() const { return loops.front().space; }
  int64_t row() const { return space().back(); }
  int64_t rows() const { return row() == 0 ? 0 : loops.front().iterations() / row(); }
};

/// The chain that these loops form; their buffers are numbered together. At least one reduces rows. None if
/// they do not walk the same rows; if a loop needs of an earlier one's results more than the same element of
/// the same row; or if a loop has an argmax, or an epilogue that reads its body.
std::optional<RowChain> row_chain(std::span<const LoopProgram> loops);

}  // namespace athanor
