// Epilogues of contractions for tests: the forms that every backend has, and a chain that only code generated
// for it computes.
#pragma once
#include <cmath>
#include <string>

#include "athanor/kernels/kernel.h"
#include "tests/backends/loop_programs.h"

namespace athanor::testing {

struct Epilogue {
  bool bias = false;       // the last input, along the result's channels
  std::string activation;  // "", "relu", "tanh" or "sigmoid"
  /// dropout(gelu(x + bias) * scale) + residual. Inputs: the vector, a number, a tensor like the result.
  bool chain = false;
  bool rows = false;  // each row of the result is multiplied by a number of the last input
  bool gate = false;  // the result is multiplied by the last input, a tensor like it
};

/// The epilogue as a program, for a request with all operands.
inline LoopProgram program_of(const Epilogue& epilogue, const KernelRequest& request) {
  const OperandDesc& result = request.output();
  const DType dtype = result.dtype, type = Builder::register_type(dtype);
  const int64_t block = result.layout.block;
  Ints space = result.shape.to_ints();
  if (block != 0) space[1] /= block, space.push_back(block);
  Builder b(space);
  int x = b.load(0, dtype, dense(space));
  if (!epilogue.bias && epilogue.activation.empty() && !epilogue.chain && !epilogue.rows && !epilogue.gate)
    return {};
  int inputs = 0;
  if (epilogue.bias || epilogue.chain) {
    const size_t behind = epilogue.chain ? 2 : epilogue.gate ? 1 : 0;
    const OperandDesc& bias = request.inputs[request.inputs.size() - 1 - behind];
    const int64_t step = bias.strides.back();
    Ints strides(space.size(), 0);
    const bool images = result.shape.rank() == 4;
    if (images) strides[1] = block == 0 ? step : block * step;
    if (!images || block != 0) strides.back() = step;
    x = b.op(Prim::add, type, x, b.load(++inputs, dtype, strides));
  }
  if (epilogue.activation == "relu") x = b.op(Prim::max, type, x, b.constant(type, 0));
  if (epilogue.activation == "tanh") x = b.op(Prim::tanh, type, x);
  if (epilogue.activation == "sigmoid") {
    const int one = b.constant(type, 1), power = b.op(Prim::exp, type, b.op(Prim::neg, type, x));
    x = b.op(Prim::div, type, one, b.op(Prim::add, type, one, power));
  }
  if (epilogue.chain) {
    const int bell = b.op(Prim::erf, type, b.op(Prim::mul, type, x, b.constant(type, std::sqrt(0.5))));
    const int half = b.op(Prim::mul, type, x, b.constant(type, 0.5));
    x = b.op(Prim::mul, type, half, b.op(Prim::add, type, bell, b.constant(type, 1)));
    int scale = b.load(++inputs, DType::f32, Ints(space.size(), 0));
    if (type != DType::f32) scale = b.op(Prim::cast, type, scale);
    x = b.op(Prim::mul, type, x, scale);
    const int random =
        b.op(Prim::random_uniform, DType::f32, b.constant(DType::i64, 7), b.index(dense(space)));
    const int kept = b.op(Prim::less, DType::b8, random, b.constant(DType::f32, 0.5));
    x = b.op(Prim::where, type, kept, x, b.constant(type, 0));
    x = b.op(Prim::add, type, x, b.load(++inputs, dtype, dense(space)));
  }
  if (epilogue.rows) {
    Ints strides = dense(space);
    for (int64_t& stride : strides) stride /= space.back();  // the last becomes 0
    x = b.op(Prim::mul, type, x, b.load(++inputs, dtype, strides));
  }
  if (epilogue.gate) x = b.op(Prim::mul, type, x, b.load(++inputs, dtype, dense(space)));
  b.store(x, inputs + 1, dtype, dense(space));
  return b.p;
}

/// The result of a program for a contraction's result, in the order of memory.
/// `inputs`: the memory of the other buffers that it reads.
inline std::vector<double> finished(LoopProgram program, std::vector<double> product,
                                    std::vector<void*> inputs) {
  std::vector<double> result(product.size());
  for (const LoopStep& s : program.body)
    if (s.kind == LoopStep::Kind::load)
      if (LoopOperand& o = program.operands[static_cast<size_t>(s.operand)]; o.buffer == 0)
        o.dtype = DType::f64;
  program.operands[static_cast<size_t>(program.stores[0].operand)].dtype = DType::f64;
  inputs.insert(inputs.begin(), product.data());
  inputs.push_back(result.data());
  reference::Interpreter(program, inputs).run();
  return result;
}

}  // namespace athanor::testing
