// Checks attention whose elements an epilogue finishes before they are stored, against the op's reference
// and a plain interpreter of the epilogue.
#pragma once
#include "athanor/kernels/memory_order.h"
#include "flash_checks.h"

namespace athanor::testing {

/// What is made of the first op's result x. The request stores x itself only in `several`.
enum class FlashChain {
  gated,    // x * sigmoid(gate), a matrix like x
  cast,     // x in another type
  several,  // x; in f32 x * number of its head + residual; in another type a half of x, each feature scaled
};
constexpr FlashChain all_flash_chains[] = {FlashChain::gated, FlashChain::cast, FlashChain::several};

/// Adds the chain to a request without an epilogue, and its operands to `inputs`.
inline void add_chain(KernelRequest& request, std::vector<TestOperand>& inputs, FlashChain chain) {
  const OperandDesc x = request.output();
  const DType other = x.dtype == DType::f16 ? DType::bf16 : DType::f16;
  const DType cast = x.dtype == DType::f32 ? DType::f16 : DType::f32;
  const std::vector<OperandDesc> along(request.outputs.begin() + 1, request.outputs.end());
  Ints space, of_head;
  for (const int64_t axis : memory_order(x.strides)) {
    space.push_back(x.shape[static_cast<int>(axis)]);
    of_head.push_back(axis == x.shape.rank() - 3 ? 1 : 0);
  }
  const Ints as_x = dense(space);
  Ints of_feature(space.size(), 0);
  of_feature.back() = 1;
  const auto more = [&](TestOperand operand) {
    inputs.push_back(std::move(operand));
    request.inputs.push_back(inputs.back().desc);
  };
  const auto written = [&](DType type) { return OperandDesc{type, x.shape, {}, x.strides}; };
  constexpr DType f32 = DType::f32;
  Builder b(space);
  int sum = b.load(0, x.dtype, as_x);
  if (chain == FlashChain::several) {
    more(view(f32, {x.shape.rank() > 2 ? x.shape[-3] : 1}, 21));
    more(view(f32, Shape(space), 22));
    more(view(DType::b8, Shape(space), 23));
    more(view(x.dtype, {space.back()}, 24));
    request.outputs = {x};
    std::ranges::copy(along, std::back_inserter(request.outputs));
    for (const DType type : {f32, other}) request.outputs.push_back(written(type));
    const int first = 5, further = first + 1 + static_cast<int>(along.size());
    b.store(sum, first, x.dtype, as_x);
    const int scaled = b.op(Prim::mul, f32, sum, b.load(1, f32, of_head));
    b.store(b.op(Prim::add, f32, scaled, b.load(2, f32, as_x)), further, f32, as_x);
    const int kept = b.op(Prim::where, f32, b.load(3, DType::b8, as_x), sum, b.constant(f32, 0));
    b.store(b.op(Prim::mul, f32, kept, b.load(4, x.dtype, of_feature)), further + 1, other, as_x);
  } else {
    request.unstored = x;
    request.outputs = along;
    request.outputs.push_back(written(chain == FlashChain::cast ? cast : x.dtype));
    if (chain == FlashChain::gated) {
      more(view(x.dtype, Shape(space), 25));
      const int one = b.constant(f32, 1), gate = b.load(1, x.dtype, as_x);
      const int power = b.op(Prim::exp, f32, b.op(Prim::neg, f32, gate));
      sum = b.op(Prim::div, f32, sum, b.op(Prim::add, f32, one, power));
    }
    const int inputs_of_chain = chain == FlashChain::gated ? 1 : 0;
    b.store(sum, 1 + inputs_of_chain + static_cast<int>(along.size()), request.outputs.back().dtype, as_x);
  }
  request.epilogue = b.p;
}

/// The outputs of a request of `ops`: the references' results, and what the interpreter makes of the first.
inline std::vector<std::vector<double>> wanted(const KernelRequest& request,
                                               std::vector<TestOperand>& inputs) {
  const size_t own = request.own_inputs();
  std::vector<RefArray> arrays;
  for (size_t i = 0; i < own; ++i) {
    arrays.emplace_back(inputs[i].desc.shape);
    arrays.back().data = inputs[i].values;
  }
  const OperandDesc& x = request.output();
  const std::vector<double> result = request.op->reference(arrays, request.attrs).data;
  // In the order of memory.
  std::vector<double> memory(result.size());
  for (size_t i = 0; i < result.size(); ++i)
    memory[static_cast<size_t>(offset_of(x, static_cast<int64_t>(i)))] = result[i];
  std::vector<std::vector<double>> stored(request.outputs.size(), std::vector<double>(result.size()));
  std::vector<void*> buffers = {memory.data()};
  for (size_t i = own; i < inputs.size(); ++i) buffers.push_back(inputs[i].address());
  for (auto& one : stored) buffers.push_back(one.data());
  LoopProgram program = request.epilogue;
  for (LoopOperand& operand : program.operands)
    if (operand.buffer == 0 || operand.buffer > static_cast<int>(inputs.size() - own))
      operand.dtype = DType::f64;
  reference::Interpreter(program, buffers).run();
  for (size_t o = 0; o < stored.size(); ++o) {
    const std::vector<double> in_memory = stored[o];
    for (size_t i = 0; i < result.size(); ++i)
      stored[o][i] = in_memory[static_cast<size_t>(offset_of(x, static_cast<int64_t>(i)))];
  }
  for (size_t i = 0; i < request.with.size(); ++i) {
    std::vector<RefArray> taken = arrays;
    if (request.with[i]->name == "attention_lse") taken.erase(taken.begin() + 2);  // it takes no values
    stored[request.first_with() + i] = request.with[i]->reference(taken, request.attrs).data;
  }
  return stored;
}

/// Runs the candidates that `runs` chooses and compares all outputs.
inline void check_chain(const FlashDevice& on, KernelRequest request, std::vector<TestOperand> inputs,
                        FlashChain chain, FlashType type,
                        const std::function<std::vector<GpuCandidate>(std::vector<GpuCandidate>)>& chosen) {
  if (type.tf32) request.compute = ComputeType::tf32;
  add_chain(request, inputs, chain);
  const auto want = wanted(request, inputs);
  const auto all = on.candidates ? on.candidates(request) : candidates_for(request, on.traits);
  std::vector<std::vector<Run>> runs(request.outputs.size());
  for (GpuCandidate& candidate : chosen(all)) {
    for (GpuLaunch& launch : candidate.launches)
      if (on.change) on.change(launch);
    auto found = outputs_on(*on.device, candidate, inputs, request.outputs);
    for (size_t o = 0; o < runs.size(); ++o)
      runs[o].push_back({fmt::format("{}, output {}", candidate.name, o), std::move(found[o])});
  }
  for (size_t o = 0; o < runs.size(); ++o) {
    EXPECT_FALSE(runs[o].empty()) << request.key();
    const size_t along = o - request.first_with();
    const bool is_lse = along < request.with.size() && request.with[along]->name == "attention_lse";
    FlashType coarser = type;
    const DType stored = request.outputs[o].dtype;
    if (size_of(stored) == 2 && type.dtype != DType::bf16) coarser = {stored};
    expect_near(runs[o], want[o], is_lse, coarser, request.key());
  }
}

/// All chains on the result; one each on q's gradient, on k's with v's, and on q's with both. `order`:
/// of the results' axes in memory, outermost first.
inline void check_chains(const FlashDevice& on, FlashType type, const FlashCase& c, const Ints& order,
                         const std::function<std::vector<GpuCandidate>(std::vector<GpuCandidate>)>& chosen) {
  const DType dtype = type.dtype;
  const Shape q = with(c.leading, c.queries, c.d), k = with(c.leading, c.keys, c.d),
              v = with(c.leading, c.keys, c.e), y = with(c.leading, c.queries, c.e),
              rows = with(c.leading, c.queries), scores = with(c.leading, c.queries, c.keys);
  const auto output = [&](DType stored, const Shape& shape) {
    OperandDesc desc{stored, shape, {}, contiguous_strides(shape)};
    if (order.empty() || shape.rank() != q.rank()) return desc;
    int64_t below = 1;
    for (size_t i = order.size(); i-- > 0; below *= shape[static_cast<int>(order[i])])
      desc.strides[static_cast<size_t>(order[i])] = below;
    return desc;
  };
  const TestOperand vq = view(dtype, q, 1), vk = view(dtype, k, 2), vv = view(dtype, v, 3),
                    vg = view(dtype, y, 4), lse = view(DType::f32, rows, 5),
                    delta = view(DType::f32, rows, 6);
  const auto run = [&](const std::vector<std::string>& names, std::vector<TestOperand> inputs,
                       const std::vector<OperandDesc>& outputs, FlashChain chain) {
    if (c.masked) inputs.push_back(view(dtype, scores, 9));
    const double scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.d));
    KernelRequest request{&find_op(names[0]), {{"causal", c.causal}, {"scale", scale}}, {}, outputs, {}};
    for (size_t i = 1; i < names.size(); ++i) request.with.push_back(&find_op(names[i]));
    for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
    check_chain(on, request, std::move(inputs), chain, type, chosen);
  };
  const std::vector<TestOperand> all{vq, vk, vv, vg, lse, delta};
  for (const FlashChain chain : all_flash_chains)
    if (c.with_lse)
      run({"scaled_dot_product_attention", "attention_lse"}, {vq, vk, vv},
          {output(dtype, y), output(DType::f32, rows)}, chain);
    else
      run({"scaled_dot_product_attention"}, {vq, vk, vv}, {output(dtype, y)}, chain);
  run({"attention_grad_q"}, all, {output(dtype, q)}, FlashChain::gated);
  run({"attention_grad_k", "attention_grad_v"}, all, {output(dtype, k), output(dtype, v)}, FlashChain::cast);
  if (!on.candidates && (type.dtype != DType::f32 || !c.together))
    run({"attention_grad_q", "attention_grad_k", "attention_grad_v"}, all,
        {output(dtype, q), output(dtype, k), output(dtype, v)}, FlashChain::several);
}

/// Attention of queries that are computed when they are read: x * number of their head + number of their
/// feature, of x in another type. An epilogue follows.
inline void check_computed(
    const FlashDevice& on, FlashType type, const FlashCase& c, DType from,
    const std::function<std::vector<GpuCandidate>(std::vector<GpuCandidate>)>& chosen) {
  constexpr DType f32 = DType::f32;
  const DType dtype = type.dtype;
  // Heads lie side by side.
  const int64_t heads = c.leading[-1], texts = c.leading.size() / heads;
  const Ints space{texts, c.queries, heads, c.d}, strides{c.queries * heads * c.d, c.d, heads * c.d, 1};
  const Shape q{texts, heads, c.queries, c.d}, k{texts, heads, c.keys, c.d}, v{texts, heads, c.keys, c.e},
      y{texts, heads, c.queries, c.e};
  TestOperand x = view(from, Shape(space), 11), factor = view(f32, {heads}, 12),
              shift = view(dtype, {c.d}, 13);
  Builder b(space);
  const int scaled = b.op(Prim::mul, f32, b.load(0, from, dense(space)), b.load(1, f32, {0, 0, 1, 0}));
  b.store(b.op(Prim::add, f32, scaled, b.load(2, dtype, {0, 0, 0, 1})), 3, dtype, dense(space));

  TestOperand computed = view(dtype, q, 14, strides);
  std::vector<double> values(static_cast<size_t>(q.size()));
  LoopProgram wide = b.p;
  wide.operands.back().dtype = DType::f64;
  const std::vector<void*> buffers{x.address(), factor.address(), shift.address(), values.data()};
  reference::Interpreter(wide, buffers).run();
  for (int64_t i = 0; i < q.size(); ++i)
    computed.values[static_cast<size_t>(i)] = values[static_cast<size_t>(offset_of(computed.desc, i))];
  std::ranges::fill(computed.memory, std::byte{0xff});  // nothing is there before

  std::vector<TestOperand> inputs{computed, view(dtype, k, 2), view(dtype, v, 3)};
  KernelRequest request{&find_op("scaled_dot_product_attention"),
                        {{"causal", c.causal}, {"scale", 1 / std::sqrt(static_cast<double>(c.d))}},
                        {},
                        {{dtype, y, {}, contiguous_strides(y)}},
                        {}};
  if (type.tf32) request.compute = ComputeType::tf32;
  for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
  add_chain(request, inputs, FlashChain::gated);
  const auto want = wanted(request, inputs);
  for (const TestOperand& input : {x, factor, shift}) {
    inputs.push_back(input);
    request.inputs.push_back(input.desc);
  }
  request.prologue = Prologue{0, b.p};
  auto all = on.candidates ? on.candidates(request) : candidates_for(request, on.traits);
  std::erase_if(all, [](const GpuCandidate& one) { return one.name.starts_with("a loop"); });
  std::vector<Run> runs;
  for (GpuCandidate& candidate : chosen(std::move(all))) {
    for (GpuLaunch& launch : candidate.launches)
      if (on.change) on.change(launch);
    runs.push_back({candidate.name, run_on(*on.device, candidate, inputs, request.output())});
  }
  EXPECT_FALSE(runs.empty()) << request.key();
  expect_near(runs, want.front(), false, type, request.key());
}

}  // namespace athanor::testing
