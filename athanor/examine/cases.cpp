#include "athanor/examine/cases.h"

#include <algorithm>
#include <set>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/ops/conv_problem.h"
#include "athanor/ops/define.h"

namespace athanor {
namespace {

bool has_cases(const Op& op) { return op.prim != Prim::input && !op.cases.empty() && op.reference; }

// f32 if the op takes it.
DType usual_dtype(const Op& op) {
  const bool f32 = std::ranges::find(op.dtypes, DType::f32) != op.dtypes.end();
  return f32 ? DType::f32 : op.dtypes.front();
}

Asked own_case(const Op& op, size_t number, DType dtype) {
  return {&op, op.cases[number], dtype, number * 1000};
}

Asked of(const char* op, std::vector<Sample> inputs, Attrs attrs = {}, DType dtype = DType::f32) {
  return {&find_op(op), {std::move(inputs), std::move(attrs)}, dtype, 0};
}

// Inputs that many ops share. Some numbers are negative, so that logarithms and roots return NaN there, as
// they should.
struct Numbers {
  Sample sample;
  uint64_t seed;
};
Numbers first(DType dtype, const Shape& shape = {300}) {
  if (is_float(dtype)) return {{shape, -5, 5, dtype}, 0};
  if (dtype == DType::b8) return {{shape, 0, 2, dtype}, 0};
  return {{shape, dtype == DType::u8 ? 0.0 : -50.0, 50, dtype}, 0};
}
Numbers second(DType dtype) {
  if (is_float(dtype)) return {{{300}, 0.2, 2.5, dtype}, 1000};
  return {{{300}, dtype == DType::b8 ? 0.0 : 1.0, dtype == DType::b8 ? 2.0 : 7.0, dtype}, 1000};
}
Numbers third(DType dtype) { return {first(dtype).sample, 2000}; }

Asked on(const Op& op, const std::vector<Numbers>& numbers, Attrs attrs = {}) {
  Asked asked{.op = &op, .spec = {{}, std::move(attrs)}};
  for (const Numbers& one : numbers) {
    asked.spec.inputs.push_back(one.sample);
    asked.seeds.push_back(one.seed);
  }
  return asked;
}

// One loop over floats: every elementwise op that takes them, and conversions to every type.
void add_floats(std::vector<Asked>& all) {
  constexpr DType f32 = DType::f32;
  for (const Op* op : all_ops()) {
    const bool of_floats = is_elementwise(op->prim) && usual_dtype(*op) == f32 && op->prim != Prim::cast &&
                           op->prim != Prim::where && op->prim != Prim::random_uniform;
    if (!of_floats) continue;
    all.push_back(op->arity == 1 ? on(*op, {first(f32)}) : on(*op, {first(f32), second(f32)}));
  }
  for (const DType dtype : all_dtypes()) all.push_back(on(find_op("cast"), {first(f32)}, {{"dtype", dtype}}));
}

// One loop over all other types: selections by one condition (which keep the types in one loop), sums, and
// conversions to f32. Also the ops of integers.
void add_other_types(std::vector<Asked>& all) {
  std::vector<DType> dtypes = all_dtypes();
  std::erase(dtypes, DType::f32);
  for (const DType dtype : dtypes)
    all.push_back(on(find_op("where"), {third(DType::b8), first(dtype), second(dtype)}));
  for (const DType dtype : dtypes) {
    if (dtype != DType::b8) all.push_back(on(find_op("add"), {first(dtype), second(dtype)}));
    all.push_back(on(find_op("cast"), {first(dtype)}, {{"dtype", DType::f32}}));
  }
  for (const char* name : {"bit_and", "bit_or", "bit_xor", "less", "equal"})
    all.push_back(on(find_op(name), {first(DType::i32), second(DType::i32)}));
}

std::vector<Asked> primitives() {
  std::vector<Asked> all;
  add_floats(all);
  add_other_types(all);
  for (const char* name : {"sum", "prod", "reduce_max", "reduce_min"})
    all.push_back(on(find_op(name), {first(DType::f32, {12, 25})}, {{"axes", Ints{1}}}));
  all.push_back(on(find_op("argmax"), {first(DType::f32, {12, 25})}, {{"axis", int64_t{1}}}));
  std::set<Prim> asked{Prim::none, Prim::batch_matmul, Prim::cumsum};  // the last two are in other parts
  for (const Asked& one : all) asked.insert(one.op->prim);
  for (const Op* op : all_ops())
    if (has_cases(*op) && !asked.contains(op->prim)) all.push_back(own_case(*op, 0, usual_dtype(*op)));
  return all;
}

// Fused loops by how they walk their elements: each element, rows, columns, few long rows in parts, an axis
// in the middle, several axes, one row for all. The training step has rows with a result for each element
// besides the sums (softmax).
std::vector<Asked> loops() {
  const auto axes = [](const Ints& a) { return Attrs{{"axes", a}}; };
  return {of("add", {{{100'003}}, {{100'003}}}),
          of("sum", {{{5, 3000}}}, axes({1})),
          of("sum", {{{100'003}, -0.5, 1}}, axes({0})),
          of("sum", {{{700, 33}}}, axes({0})),
          of("sum", {{{6, 50, 20}}}, axes({1})),
          of("reduce_max", {{{6, 50, 20}}}, axes({0, 2})),
          of("sum", {{{40, 64}}}, axes({1}), DType::bf16),
          of("sum", {{{4, 0}}}, axes({1})),
          of("cumsum", {{{3, 700}}}, {{"axis", int64_t{1}}})};
}

// [B, M, K] x [B, K, N]: an MLP's first product, one row, odd extents; and a storage type. Each is a kernel
// that takes seconds to compile on some devices. The first is as large as in training: llvmpipe ends loops
// after 65,535 rounds, which smaller products do not reach.
std::vector<Asked> products() {
  const auto product = [](int64_t b, int64_t m, int64_t k, int64_t n, DType dtype = DType::f32) {
    return of("batch_matmul", {{{b, m, k}}, {{b, k, n}}}, {}, dtype);
  };
  return {product(1, 128, 784, 512), product(1, 1, 400, 300), product(3, 33, 65, 17, DType::bf16)};
}

// Convolutions and pooling, with their gradients for weights.
std::vector<Asked> convolutions() {
  using namespace examined;
  std::vector<Asked> all;
  const Shape x{batch, channels, size, size}, w{maps, channels, window, window};
  const Attrs conv = conv_attrs({.padding = padding});
  const Shape y = ConvProblem(x, w, conv).y;
  Attrs weights = conv;
  weights.set("weight_shape", w.to_ints());
  all.push_back(of("conv2d", {{x}, {w}}, conv));
  all.push_back(of("conv2d_weight_grad", {{x}, {y}}, weights));
  const Shape pooled_maps{batch, maps, pooled, pooled};
  Attrs largest{{"kernel", Ints{pool, pool}}, {"stride", Ints{pool, pool}}, {"padding", Ints{0, 0}}};
  all.push_back(of("max_pool2d", {{y}}, largest));
  all.push_back(of("max_pool2d_grad", {{y}, {pooled_maps}}, largest));
  return all;
}

// Convolutions' gradients for images, and average pooling. The convolution is small, because its kernel is
// like the forward one's and as slow to compile.
std::vector<Asked> gradients_for_images() {
  using namespace examined;
  Attrs images = conv_attrs({.padding = padding});
  images.set("input_shape", Ints{2, 6, 5, 3});
  std::vector<Asked> all{
      of("conv2d_input_grad", {{{2, 10, 5, 3}}, {{10, 6, window, window}}}, std::move(images))};
  for (const char* name : {"avg_pool2d", "avg_pool2d_grad"})
    all.push_back(own_case(find_op(name), 0, DType::f32));
  return all;
}

std::vector<Asked> attention() {
  std::vector<Asked> all;
  const Attrs attrs{{"causal", true}, {"scale", 0.25}};
  const Shape x{2, 40, 16};
  all.push_back(of("scaled_dot_product_attention", {{x}, {x}, {x}}, attrs));
  for (const char* name : {"attention_grad_q", "attention_grad_k", "attention_grad_v"})
    all.push_back(own_case(find_op(name), 0, DType::f32));
  return all;
}

// lstm, gru and their gradients: a last group that is not full, several times, more features than a vector
// has. Compilers unroll all of the op table's smaller cases, which takes half as long again.
std::vector<Asked> recurrences() {
  constexpr int64_t n = 3, times = 7, h = 20;
  const auto some = [](const Shape& shape) { return Sample{shape, -0.5, 0.5}; };
  const auto sequence = [&](int64_t blocks) { return some({n, times, blocks * h}); };
  const auto weight = [&](int64_t gates) { return some({gates * h, h}); };
  const Sample state = some({n, h});
  return {of("lstm", {sequence(4), weight(4), state, state}),
          of("lstm_grad", {sequence(4), weight(4), state, sequence(2), sequence(2)}),
          of("gru", {sequence(3), weight(3), some({3 * h}), state}),
          of("gru_grad", {sequence(3), sequence(3), weight(3), state, sequence(1), sequence(1)})};
}

// Every op that has a kernel of its own and is in no other part, in its first case that the kernel takes;
// recurrent ones in a larger case.
std::vector<Asked> further_kernels(const std::vector<AskedPart>& parts) {
  std::set<const Op*> asked;
  for (const AskedPart& part : parts)
    for (const Asked& one : part.asked) asked.insert(one.op);
  std::vector<Asked> all = recurrences();
  for (const Asked& one : all) asked.insert(one.op);
  for (const Op* op : all_ops()) {
    if (op->prim != Prim::none || asked.contains(op) || !has_cases(*op)) continue;
    for (size_t i = 0; i < op->cases.size(); ++i)
      if (Asked one = own_case(*op, i, usual_dtype(*op)); has_gpu_kernel(one)) {
        all.push_back(std::move(one));
        break;
      }
  }
  return all;
}

// Every case in the usual dtype, and the first case in each other dtype.
std::vector<Asked> whole(const Op& op) {
  std::vector<Asked> all;
  for (size_t i = 0; i < op.cases.size(); ++i) all.push_back(own_case(op, i, usual_dtype(op)));
  const bool open =
      std::ranges::any_of(op.cases.front().inputs, [](const Sample& sample) { return !sample.dtype; });
  for (const DType dtype : op.dtypes)
    if (open && dtype != usual_dtype(op)) all.push_back(own_case(op, 0, dtype));
  return all;
}

}  // namespace

FilledCase fill(const Asked& asked) {
  if (asked.seeds.empty()) return fill_case(*asked.op, asked.spec, asked.dtype, asked.seed);
  FilledCase filled{*asked.op, asked.spec, {}, {}};
  for (size_t i = 0; i < asked.seeds.size(); ++i) {
    const FilledCase one =
        fill_case(find_op("add"), OpCase{{asked.spec.inputs[i]}}, asked.dtype, asked.seeds[i]);
    filled.inputs.push_back(one.inputs.front());
    filled.free.push_back(one.free.front());
  }
  return filled;
}

bool has_gpu_kernel(const Asked& asked) {
  const FilledCase filled = fill(asked);
  std::vector<TensorType> types;
  for (const HostArray& input : filled.inputs) types.push_back({input.dtype, input.shape, {}});
  return gpu_has_kernel(*asked.op, types, asked.op->infer(types, filled.spec.attrs), filled.spec.attrs,
                        GpuTraits{});
}

std::vector<AskedPart> short_cases() {
  std::vector<AskedPart> parts{{"convolutions and pooling", convolutions(), 1.7},
                               {"primitives", primitives(), 1.9},
                               {"fused loops", loops(), 1.0},
                               {"products of matrices", products(), 1.0},
                               {"gradients for images", gradients_for_images(), 0.5},
                               {"attention", attention(), 0.7}};
  AskedPart further{"other kernels", further_kernels(parts), 3.6};
  parts.insert(parts.begin() + 2, std::move(further));
  return parts;
}

std::vector<AskedPart> whole_cases() {
  std::vector<AskedPart> all;
  for (const Op* op : all_ops())
    if (has_cases(*op)) all.push_back({op->name, whole(*op)});
  all.push_back({"fused loops", loops()});
  all.push_back({"products of matrices", products()});
  all.push_back({"convolutions and pooling", convolutions()});
  all.push_back({"gradients for images", gradients_for_images()});
  all.push_back({"attention", attention()});
  all.push_back({"recurrent layers", recurrences()});
  return all;
}

}  // namespace athanor
