// The loop that a layer norm leaves before a linear layer.
#pragma once
#include <utility>

#include "athanor/graph/shape.h"
#include "athanor/kernels/loop_program.h"

namespace athanor {

/// (x - mean) * scale * gamma + beta for x [batch, rows, columns]: mean and scale (f32) are those of a row,
/// gamma and beta (of type `to`) those of a column. Buffers: x, mean, scale, gamma, beta, result.
inline LoopProgram normalising_loop(const Shape& shape, DType from, DType to) {
  const int64_t rows = shape[1], columns = shape[2];
  LoopProgram program;
  program.space = shape.to_ints();
  program.reduced.assign(3, false);
  const Ints dense{rows * columns, columns, 1}, by_row{rows, 1, 0}, by_column{0, 0, 1};
  program.operands = {{0, from, 0, dense},   {1, DType::f32, 0, by_row}, {2, DType::f32, 0, by_row},
                      {3, to, 0, by_column}, {4, to, 0, by_column},      {5, to, 0, dense}};
  program.buffers = 6;
  for (int operand = 0; operand < 5; ++operand) {
    LoopStep load;
    load.kind = LoopStep::Kind::load;
    load.operand = operand;
    program.body.push_back(load);
  }
  int last = 0;
  for (const auto& [prim, other] :
       {std::pair{Prim::sub, 1}, {Prim::mul, 2}, {Prim::mul, 3}, {Prim::add, 4}}) {
    LoopStep step;
    step.prim = prim;
    step.a = last;
    step.b = other;
    program.body.push_back(step);
    last = static_cast<int>(program.body.size()) - 1;
  }
  program.stores = {{last, 5}};
  return program;
}

}  // namespace athanor
