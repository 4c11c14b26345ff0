// A tensor without a value is never taken for a number: each op and method reports which tensor it is, and
// where.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "athanor/base/file.h"
#include "athanor/nn/nn.h"
#include "tests/ops/op_harness.h"
#include "tests/support/expect_error.h"
#include "tests/support/matches.h"

namespace athanor {
namespace {

using testing::expect_error;
using Tensors = std::vector<Tensor>;

struct Function {
  std::string name;
  size_t tensors;
  std::function<void(const Tensors&)> call;
};

#define UNARY(name, ...)                                                      \
  {                                                                           \
    #name, 1, [](const Tensors& t) { name(t[0] __VA_OPT__(, ) __VA_ARGS__); } \
  }
#define BINARY(name, ...)                                                           \
  {                                                                                 \
    #name, 2, [](const Tensors& t) { name(t[0], t[1] __VA_OPT__(, ) __VA_ARGS__); } \
  }

// All functions in athanor/ops/ that take tensors.
const std::vector<Function>& functions() {
  static const std::vector<Function> table{
      UNARY(relu),
      UNARY(leaky_relu),
      UNARY(elu),
      UNARY(gelu),
      UNARY(gelu_tanh),
      UNARY(silu),
      UNARY(sigmoid),
      UNARY(log_sigmoid),
      UNARY(softplus),
      UNARY(hard_sigmoid),
      UNARY(hard_swish),
      BINARY(conv2d),
      BINARY(conv2d_input_grad, Shape{1, 1, 4, 4}),
      BINARY(conv2d_weight_grad, Shape{1, 1, 3, 3}),
      BINARY(conv_transpose2d),
      BINARY(conv1d),
      BINARY(conv3d),
      UNARY(unfold2d, 2),
      UNARY(fold2d, 3, 2),
      UNARY(interpolate, {2}),
      BINARY(grid_sample),
      UNARY(affine_grid, 2),
      BINARY(roi_align, 2),
      BINARY(swiglu),
      UNARY(rotary_embedding),
      BINARY(lstm),
      BINARY(gru),
      UNARY(full_like, 2.0),
      UNARY(zeros_like),
      UNARY(ones_like),
      UNARY(one_hot, 3),
      UNARY(tril),
      UNARY(triu),
      UNARY(neg),
      UNARY(exp),
      UNARY(log),
      UNARY(sin),
      UNARY(cos),
      UNARY(tanh),
      UNARY(erf),
      UNARY(sqrt),
      UNARY(floor),
      UNARY(abs),
      UNARY(cast, DType::f64),
      BINARY(add),
      BINARY(sub),
      BINARY(mul),
      BINARY(div),
      BINARY(trunc_divide),
      BINARY(floor_divide),
      BINARY(mod),
      BINARY(remainder),
      BINARY(pow),
      BINARY(maximum),
      BINARY(minimum),
      BINARY(less),
      BINARY(less_equal),
      BINARY(greater),
      BINARY(greater_equal),
      BINARY(equal),
      BINARY(not_equal),
      UNARY(is_nan),
      UNARY(is_finite),
      BINARY(bit_and),
      BINARY(bit_or),
      BINARY(bit_xor),
      BINARY(logical_and),
      BINARY(logical_or),
      BINARY(logical_xor),
      UNARY(logical_not),
      {"where", 3, [](const Tensors& t) { where(t[0], t[1], t[2]); }},
      UNARY(square),
      UNARY(reciprocal),
      UNARY(rsqrt),
      UNARY(log1p),
      UNARY(expm1),
      UNARY(sign),
      UNARY(ceil),
      UNARY(trunc),
      UNARY(round),
      UNARY(clamp, 0, 1),
      {"lerp", 3, [](const Tensors& t) { lerp(t[0], t[1], t[2]); }},
      UNARY(detach),
      UNARY(slice, 0, 0, 1),
      BINARY(take),
      BINARY(embedding),
      BINARY(gather, 0),
      BINARY(scatter_add, 0, 3),
      BINARY(matmul),
      BINARY(batch_matmul),
      BINARY(wide_matmul),
      BINARY(wide_batch_matmul),
      {"grouped_matmul", 3, [](const Tensors& t) { grouped_matmul(t[0], t[1], t[2]); }},
      BINARY(linear),
      BINARY(dot_general, {0}, {0}, {}, {}),
      {"einsum", 2,
       [](const Tensors& t) {
         einsum("i,i->", {t[0], t[1]});
       }},
      {"scaled_dot_product_attention", 3,
       [](const Tensors& t) { scaled_dot_product_attention(t[0], t[1], t[2]); }},
      BINARY(ctc_loss, {}, {}),
      UNARY(softmax),
      UNARY(log_softmax),
      BINARY(cross_entropy),
      BINARY(nll_loss),
      BINARY(mse_loss),
      BINARY(l1_loss),
      BINARY(binary_cross_entropy_with_logits),
      UNARY(reshape, {1}),
      UNARY(flatten),
      UNARY(squeeze),
      UNARY(unsqueeze, 0),
      UNARY(permute, {0}),
      UNARY(transpose),
      UNARY(broadcast_to, Shape{2}),
      UNARY(tile, {2}),
      UNARY(repeat_interleave, 2, 0),
      {"concat", 2,
       [](const Tensors& t) {
         concat({t[0], t[1]});
       }},
      {"stack", 2,
       [](const Tensors& t) {
         stack({t[0], t[1]});
       }},
      UNARY(split, {1}),
      UNARY(chunk, 1),
      UNARY(pad, {0}, {1}),
      UNARY(flip),
      UNARY(roll, 1, 0),
      UNARY(unfold, 0, 1),
      UNARY(fold, 0, 1),
      UNARY(normalize, {0}),
      UNARY(batch_norm),
      UNARY(layer_norm, 1),
      UNARY(rms_norm),
      UNARY(group_norm, 1),
      UNARY(max_pool2d, 2),
      UNARY(avg_pool2d, 2),
      UNARY(adaptive_avg_pool2d, 1),
      UNARY(adaptive_max_pool2d, 1),
      UNARY(dropout),
      UNARY(sum),
      UNARY(mean),
      UNARY(var),
      UNARY(stddev),
      UNARY(prod),
      UNARY(max),
      UNARY(min),
      UNARY(argmax),
      UNARY(argmin),
      UNARY(logsumexp),
      UNARY(norm),
      UNARY(all),
      UNARY(any),
      UNARY(moments),
      UNARY(cumsum, 0),
      UNARY(sort),
      UNARY(argsort),
      UNARY(topk, 1)};
  return table;
}

std::string which(size_t i, size_t of) {
  return of == 1 ? "its input is undefined"
                 : "its input " + std::to_string(i + 1) + " of " + std::to_string(of);
}

TEST(Undefined, OperandsOfEveryFunctionAreNamed) {
  const Tensor x = Tensor::from<float>({1, 2, 3}, {3});
  for (const Function& function : functions())
    for (size_t i = 0; i < function.tensors; ++i) {
      SCOPED_TRACE(function.name);
      Tensors tensors(function.tensors, x);
      tensors[i] = {};
      expect_error(ErrorCode::value,
                   {function.name + "(", "undefined", which(i, function.tensors), "undefined_test.cpp:"},
                   [&] { function.call(tensors); });
    }
}

// The table above must have all functions that the headers declare.
TEST(Undefined, NoFunctionIsLeftOut) {
  std::set<std::string> known{"max_pool2d_grad"};
  for (const Function& function : functions()) known.insert(function.name);
  constexpr const char* declared =
      R"((?:^|\n)[A-Za-z:<>]+ ([a-z_0-9]+)\((?:Operand|const std::string& subscripts, const TensorList|const TensorList))";
  size_t found = 0;
  for (const auto& file : std::filesystem::directory_iterator(ATHANOR_SOURCE_DIR "/athanor/ops")) {
    if (file.path().extension() != ".h") continue;
    const std::string text = read_text_file(file.path());
    for (const testing::Match& at : testing::matches(text, declared)) {
      EXPECT_TRUE(known.contains(at[1])) << at[1] << " in " << file.path();
      ++found;
    }
  }
  EXPECT_GT(found, 100U);
}

TEST(Undefined, OperandsOfEveryOpAreNamed) {
  for (const Op* op : all_ops()) {
    if (op->cases.empty() || op->cases.front().inputs.empty()) continue;
    const auto filled = testing::fill(*op, 0, op->dtypes.front());
    for (size_t i = 0; i < filled.inputs.size(); ++i) {
      SCOPED_TRACE(op->name);
      Tensors inputs;
      for (const HostArray& input : filled.inputs) inputs.push_back(Tensor::from(input));
      inputs[i] = {};
      expect_error(ErrorCode::value, {op->name + "(", which(i, inputs.size()), "undefined"},
                   [&] { testing::call_op(*op, inputs, filled.spec.attrs); });
    }
  }
}

TEST(Undefined, OperatorsNameTheOperandAndTheLine) {
  const Tensor u, a = Tensor::from<float>({1, 2}, {2});
  expect_error(ErrorCode::value,
               {"add(f32[2], undefined): its input 2 of 2 is undefined", "undefined_test.cpp:"},
               [&] { a + u; });
  expect_error(ErrorCode::value, {"sub(undefined, 1): its input 1 of 2"}, [&] { u - 1; });
  expect_error(ErrorCode::value, {"neg(undefined): its input is undefined"}, [&] { -u; });
  EXPECT_EQ((a + 0).to_vector<float>(), (std::vector<float>{1, 2}));  // defined tensors still take numbers
}

TEST(Undefined, AGradientBeforeBackwardIsNoZero) {
  Tensor w = Tensor::from<float>({3}, {});
  w.requires_grad();
  EXPECT_FALSE(w.grad().defined());
  expect_error(ErrorCode::value, {"mul(undefined, 0.1)", "before backward()"}, [&] { w.grad() * 0.1; });
  expect_error(ErrorCode::value,
               {"item() of an undefined tensor", "before backward()", "undefined_test.cpp:"},
               [&] { w.grad().item(); });
}

TEST(Undefined, EveryMethodSaysSo) {
  Tensor u;
  const auto expect = [](const std::string& name, const std::function<void()>& call) {
    expect_error(ErrorCode::value, {name + "() of an undefined tensor", "undefined_test.cpp:"}, call);
  };
  expect("shape", [&] { (void)u.shape(); });
  expect("size", [&] { (void)u.size(); });
  expect("size", [&] { (void)u.size(0); });
  expect("rank", [&] { (void)u.rank(); });
  expect("dtype", [&] { (void)u.dtype(); });
  expect("device", [&] { (void)u.device(); });
  expect("type", [&] { (void)u.type(); });
  expect("eval", [&] { (void)u.eval(); });
  expect("item", [&] { (void)u.item(); });
  expect("to_host", [&] { (void)u.to_host(); });
  expect("to_host", [&] { (void)u.to_vector<float>(); });
  expect("requires_grad", [&] { u.requires_grad(); });
  expect("needs_grad", [&] { (void)u.needs_grad(); });
  expect("backward", [&] { u.backward(); });
  expect("grad", [&] { (void)u.grad(); });
  expect("set_grad", [&] { u.set_grad({}); });
  expect("detach", [&] { (void)u.detach(); });
  const Tensor x = Tensor::from<float>({1}, {});
  expect_error(ErrorCode::value, {"number 2 is undefined"}, [&] { eval({x, u}); });
  expect_error(ErrorCode::value, {"output 1 of 1 is undefined"}, [&] { grad({u}, {x}); });
  expect_error(ErrorCode::value, {"input 2 of 2 is undefined"}, [&] { grad({x * x}, {x, u}); });
  expect_error(ErrorCode::value, {"mean is undefined"}, [&] {
    batch_norm(Tensor::from<float>({1, 2}, {1, 2}), {}, {}, u, Tensor::from<float>({1, 1}, {2}));
  });
}

TEST(Undefined, ModulesAndParametersSaySo) {
  nn::Linear linear(2, 2);
  expect_error(ErrorCode::usage, {"Linear", "an undefined tensor"}, [&] { linear(Tensor()); });
  const nn::Parameter none;
  EXPECT_FALSE(none.value().defined());
  expect_error(ErrorCode::value, {"relu(undefined)"}, [&] { relu(none); });
}

}  // namespace
}  // namespace athanor
