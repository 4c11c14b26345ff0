// A loop that only copies.
#pragma once
#include <utility>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// Copies buffer 0, whose elements lie `from` apart, to buffer 1, where they lie `to` apart.
inline LoopProgram copying_loop(DType dtype, Ints space, Ints from, Ints to) {
  LoopProgram program;
  program.reduced.assign(space.size(), false);
  program.space = std::move(space);
  program.operands = {LoopOperand{0, dtype, 0, std::move(from)}, LoopOperand{1, dtype, 0, std::move(to)}};
  LoopStep load;
  load.kind = LoopStep::Kind::load;
  load.type = computed_in(dtype);
  load.operand = 0;
  program.body = {load};
  program.stores = {{0, 1}};
  program.buffers = 2;
  return program;
}

}  // namespace athanor
