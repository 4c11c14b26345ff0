// Mixed precision as a pass: which ops it computes in which types, and that gradients stay right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "athanor/base/error.h"
#include "athanor/compile/graph.h"
#include "athanor/compile/options.h"
#include "athanor/graph/op.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {
namespace {

/// Builds graphs by hand, like the evaluator's: all nodes have one precision.
class MixedGraph {
 public:
  explicit MixedGraph(Precision precision) : precision_(precision) {}
  int input(const Shape& shape, DType dtype = DType::f32) {
    graph.inputs.push_back(graph.add({.op = &find_op("input"),
                                      .attrs = {},
                                      .inputs = {},
                                      .type = {dtype, shape, {}},
                                      .layout = {},
                                      .epilogue = {},
                                      .where = {},
                                      .part = {}}));
    return graph.inputs.back();
  }
  int op(const std::string& name, const std::vector<int>& inputs, Attrs attrs = {}) {
    const Op& op = find_op(name);
    std::vector<TensorType> types;
    for (int i : inputs) types.push_back(graph[i].type);
    return graph.add({.op = &op,
                      .attrs = attrs,
                      .inputs = inputs,
                      .type = op.infer(types, attrs),
                      .layout = {},
                      .epilogue = {},
                      .where = {},
                      .part = {},
                      .after = {},
                      .precision = precision_});
  }
  int spread(int id, const Shape& shape) { return op("broadcast", {id}, {{"shape", shape.to_ints()}}); }
  int number(double value) { return op("constant", {}, {{"value", value}, {"dtype", DType::f32}}); }
  Graph output(const std::vector<int>& ids) {
    graph.outputs = ids;
    return graph;
  }
  Graph graph;

 private:
  Precision precision_;
};

const GraphNode& only_node(const Graph& graph, const std::string& op) {
  const auto found = std::ranges::find(graph.nodes, op, [](const GraphNode& node) { return node.op->name; });
  EXPECT_NE(found, graph.nodes.end()) << op << "\n" << to_string(graph);
  return *found;
}

int cast_count(const Graph& graph) {
  return static_cast<int>(
      std::ranges::count(graph.nodes, "cast", [](const GraphNode& node) { return node.op->name; }));
}

TEST(Autocast, LeavesAGraphWithoutItAlone) {
  MixedGraph b(Precision::f32);
  const Graph g = b.output({b.op("batch_matmul", {b.input({1, 2, 3}), b.input({1, 3, 4})})});
  EXPECT_EQ(to_string(autocast(g)), to_string(g));
}

TEST(Autocast, MultipliesInLowPrecisionAndKeepsTheOutputsType) {
  for (const auto& [precision, dtype] :
       {std::pair(Precision::bf16, DType::bf16), std::pair(Precision::f16, DType::f16)}) {
    MixedGraph b(precision);
    const Graph g = autocast(b.output({b.op("batch_matmul", {b.input({1, 2, 3}), b.input({1, 3, 4})})}));
    EXPECT_EQ(only_node(g, "batch_matmul").type.dtype, dtype) << to_string(g);
    EXPECT_EQ(g[g.outputs[0]].type.dtype, DType::f32);
    EXPECT_EQ(cast_count(g), 3);
  }
}

TEST(Autocast, IsIdempotent) {
  MixedGraph b(Precision::bf16);
  const int x = b.input({2, 3, 5, 5}), w = b.input({4, 3, 3, 3});
  const int y = b.op(
      "conv2d", {x, w},
      {{"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}, {"groups", int64_t{1}}});
  const Graph once = autocast(b.output({b.op("sum", {b.op("relu", {y})}, {{"axes", Ints{0, 2, 3}}})}));
  EXPECT_EQ(to_string(autocast(once)), to_string(once));
  for (const GraphNode& node : once.nodes) EXPECT_EQ(node.precision, Precision::f32);
}

TEST(Autocast, LeavesIntegersBoolAndOtherFloatsAlone) {
  MixedGraph b(Precision::bf16);
  const int i = b.input({1, 2, 2}, DType::i64), d = b.input({1, 2, 2}, DType::f64);
  const int truth = b.op("less", {b.input({2}), b.input({2})});
  const Graph g =
      b.output({b.op("batch_matmul", {i, i}), b.op("batch_matmul", {d, d}), b.op("bit_and", {truth, truth})});
  EXPECT_EQ(to_string(autocast(g)), to_string(g));
}

TEST(Autocast, CastsAWeightOnce) {
  // Forward reads the weight transposed, the gradient reads it as it is.
  MixedGraph b(Precision::bf16);
  const int x = b.input({1, 2, 3}), w = b.input({4, 3}), dy = b.input({1, 2, 4});
  const int transposed = b.op("permute", {w}, {{"axes", Ints{1, 0}}});
  const int y = b.op("batch_matmul", {x, b.op("reshape", {transposed}, {{"shape", Ints{1, 3, 4}}})});
  const int dx = b.op("batch_matmul", {dy, b.op("reshape", {w}, {{"shape", Ints{1, 4, 3}}})});
  const Graph g = autocast(b.output({y, dx}));
  int of_weight = 0;
  for (const GraphNode& node : g.nodes)
    of_weight += node.op->name == "cast" && g[node.inputs[0]].type.shape == Shape{4, 3};
  EXPECT_EQ(of_weight, 1) << to_string(g);
}

TEST(Autocast, PromotesToTheWidestOfFullOperands) {
  MixedGraph b(Precision::bf16);
  const int y = b.op("batch_matmul", {b.input({1, 2, 3}), b.input({1, 3, 4})});
  // A bias that is broadcast over rows does not widen the type, an f32 operand of full shape does.
  const int biased = b.op("add", {y, b.spread(b.input({1, 1, 4}), {1, 2, 4})});
  const int scaled = b.op("mul", {biased, b.spread(b.number(0.5), {1, 2, 4})});
  const int residual = b.op("sub", {scaled, b.input({1, 2, 4})});
  const Graph g = autocast(b.output({residual}));
  EXPECT_EQ(only_node(g, "add").type.dtype, DType::bf16);
  EXPECT_EQ(only_node(g, "mul").type.dtype, DType::bf16);
  EXPECT_EQ(only_node(g, "sub").type.dtype, DType::f32);
}

TEST(Autocast, KeepsSumsAndLossesInF32) {
  MixedGraph b(Precision::f16);
  const int y = b.op("batch_matmul", {b.input({1, 2, 3}), b.input({1, 3, 4})});
  const int loss =
      b.op("cross_entropy", {b.op("reshape", {y}, {{"shape", Ints{2, 4}}}), b.input({2}, DType::i64)},
           {{"label_smoothing", 0.0}, {"ignore_index", int64_t{-100}}});
  const Graph g = autocast(b.output({b.op("sum", {y}, {{"axes", Ints{0}}}), loss}));
  EXPECT_EQ(only_node(g, "sum").type.dtype, DType::f32);
  EXPECT_EQ(only_node(g, "cross_entropy").type.dtype, DType::f32);
  EXPECT_EQ(g[only_node(g, "cross_entropy").inputs[0]].type.dtype, DType::f32);
}

TEST(Autocast, KeepsTheStatisticsOfAttentionsRowsInF32) {
  MixedGraph b(Precision::bf16);
  const int q = b.input({2, 3}), k = b.input({2, 3}), v = b.input({2, 3}), dy = b.input({2, 3});
  const Attrs attrs{{"causal", false}, {"scale", 0.5}};
  const int lse = b.op("attention_lse", {q, k}, attrs), delta = b.input({2});
  const Graph g = autocast(b.output({b.op("attention_grad_q", {q, k, v, dy, lse, delta}, attrs)}));
  const GraphNode& grad = only_node(g, "attention_grad_q");
  const auto dtype = [&](size_t i) { return g[grad.inputs[i]].type.dtype; };
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(dtype(i), DType::bf16) << i;
  EXPECT_EQ(dtype(4), DType::f32);
  EXPECT_EQ(dtype(5), DType::f32);
}

TEST(Autocast, MarksProductsOfTf32AndChangesNoType) {
  MixedGraph b(Precision::tf32);
  const int y = b.op("batch_matmul", {b.input({1, 2, 3}), b.input({1, 3, 4})});
  const Graph g = autocast(b.output({b.op("relu", {y})}));
  EXPECT_EQ(cast_count(g), 0);
  EXPECT_EQ(only_node(g, "batch_matmul").precision, Precision::tf32);
  EXPECT_EQ(only_node(g, "relu").precision, Precision::f32);
  EXPECT_EQ(to_string(autocast(g)), to_string(g));
}

// From PyTorch 2.x, documentation of torch.amp, "CUDA Op-Specific Behavior", for the ops that both have.
TEST(Autocast, PoliciesAreThoseOfPyTorch) {
  const std::set<std::string> low = {"batch_matmul", "conv2d", "conv2d_input_grad", "conv2d_weight_grad",
                                     "attention_grad_q", "attention_grad_k", "attention_grad_v",
                                     "attention_lse", "scaled_dot_product_attention", "gru", "gru_grad",
                                     "lstm", "lstm_grad",
                                     // PyTorch's _grouped_mm takes bf16 alone.
                                     "grouped_matmul", "grouped_matmul_weight_grad"};
  const std::set<std::string> full = {
      "cross_entropy", "ctc_loss", "ctc_loss_grad", "cumsum", "exp", "expm1",      "log",     "log1p",
      "log_softmax",   "pow",      "prod",          "rsqrt",  "sum", "reciprocal", "softmax", "softplus"};
  // Ops that change parameters and running statistics. They are not in PyTorch's lists.
  const std::set<std::string> own = {"running_average", "adam_mean", "adam_square",      "adam_step",
                                     "sgd_momentum",    "sgd_step",  "sgd_nesterov_step"};
  for (const Op* op : all_ops()) {
    const CastPolicy expected = low.contains(op->name)                              ? CastPolicy::allow
                                : full.contains(op->name) || own.contains(op->name) ? CastPolicy::deny
                                                                                    : CastPolicy::promote;
    EXPECT_EQ(op->cast_policy, expected) << op->name;
  }
}

/// Expects all arithmetic between two nodes to be excluded from mixed precision.
void expect_in_f32(const Node& to, const Node& from) {
  if (&to == &from) return;
  if (!is_movement(to.op->prim)) {
    EXPECT_EQ(to.precision, Precision::f32) << to.op->name;
  }
  for (const NodePtr& input : to.inputs) expect_in_f32(*input, from);
}

// Functions in PyTorch's lists that are composed of several ops here.
TEST(Autocast, ComposedLossesAndNormsAreInF32) {
  const Tensor x = call("batch_matmul", {Tensor::placeholder({DType::f32, {1, 4, 4}, {}}),
                                         Tensor::placeholder({DType::f32, {1, 4, 4}, {}})});
  const Autocast scope(Precision::bf16);
  for (const Tensor& y :
       {mse_loss(x, x), l1_loss(x, x), binary_cross_entropy_with_logits(x, x), norm(x), logsumexp(x), var(x),
        layer_norm(x, 1), group_norm(x, 2), pow(x, 2), moments(x).var})
    expect_in_f32(*y.node(), *x.node());
  EXPECT_EQ(relu(x).node()->precision, Precision::bf16);
}

// ---- Meaning ----

struct Loss {
  double value;
  std::vector<HostArray> gradients;
};

/// A small network with a convolution, batch norm, a residual sum, a product and a loss.
Loss network(Precision precision) {
  manual_seed(5);
  const Tensor x = uniform({8, 3, 6, 6}, -1, 1);
  std::vector<Tensor> parameters = {uniform({16, 3, 3, 3}, -0.4, 0.4), uniform({16}, 0.5, 1.5),
                                    uniform({16}, -0.5, 0.5),          uniform({16, 16, 1, 1}, -0.4, 0.4),
                                    uniform({5, 16}, -0.4, 0.4),       uniform({5}, -0.4, 0.4)};
  eval(parameters);
  for (Tensor& p : parameters) p.requires_grad();
  const Tensor labels = Tensor::from<int64_t>({0, 1, 2, 3, 4, 0, 1, 2}, {8});
  Tensor loss;
  {
    const Autocast scope(precision);
    const Tensor y =
        relu(batch_norm(conv2d(x, parameters[0], {}, {.padding = 1}), parameters[1], parameters[2]));
    const Tensor z = relu(conv2d(y, parameters[3]) + y);
    loss = cross_entropy(linear(mean(z, {2, 3}), parameters[4], parameters[5]), labels);
  }
  loss.backward();
  Loss result{loss.item(), {}};
  for (const Tensor& p : parameters) result.gradients.push_back(p.grad().to_host());
  return result;
}

double distance(const HostArray& a, const HostArray& b) {
  const auto x = to_doubles(a), y = to_doubles(b);
  double squares = 0, all = 0;
  for (size_t i = 0; i < x.size(); ++i) squares += std::pow(x[i] - y[i], 2), all += y[i] * y[i];
  return std::sqrt(squares / all);
}

TEST(Autocast, GradientsAreThoseOfF32ToRounding) {
  const Loss exact = network(Precision::f32);
  for (const auto& [precision, unit] :
       {std::pair(Precision::bf16, 0x1p-8), std::pair(Precision::f16, 0x1p-11)}) {
    const Loss mixed = network(precision);
    EXPECT_NEAR(mixed.value, exact.value, 4 * unit * exact.value) << to_string(precision);
    EXPECT_NE(mixed.value, exact.value) << to_string(precision) << " changed nothing";
    for (size_t i = 0; i < exact.gradients.size(); ++i) {
      EXPECT_EQ(mixed.gradients[i].dtype, DType::f32);
      EXPECT_LT(distance(mixed.gradients[i], exact.gradients[i]), 16 * unit)
          << to_string(precision) << " " << i;
    }
  }
}

TEST(Autocast, MeansTheSameWhetherFusedOrNot) {
  const Loss fused = network(Precision::bf16);
  const ScopedDisable off("fuse,layout,epilogue,simplify,dedicated");
  const Loss plain = network(Precision::bf16);
  for (size_t i = 0; i < fused.gradients.size(); ++i)
    EXPECT_LT(distance(plain.gradients[i], fused.gradients[i]), 0.05) << i;
}

TEST(Autocast, IsPartOfAPlansKey) {
  const Tensor a = Tensor::from<float>({1.001F, 0, 0, 1.001F}, {2, 2});
  const auto product = [&](Precision precision) {
    const Autocast scope(precision);
    return matmul(a, a).to_vector<float>()[0];
  };
  const float exact = product(Precision::f32);
  EXPECT_EQ(product(Precision::bf16), 1.0F);
  EXPECT_EQ(product(Precision::f32), exact);
  EXPECT_NEAR(exact, 1.002F, 1e-5);
}

TEST(Autocast, CastsFuseIntoLoops) {
  const Tensor x = uniform({64, 64}, -1, 1), w = uniform({64, 64}, -1, 1);
  eval({x, w});
  const Autocast scope(Precision::bf16);
  const Tensor y = matmul(relu(matmul(x, w) * 2 + 1), w);
  const auto plan = plan_for({y});
  // The casts of x, of w and of the result are separate loops, because they read and write the plan's values.
  int alone = 0;
  for (const PlanStep& step : plan->steps)
    alone += step.ops.size() == 1 && step.name().starts_with("cast to ");
  EXPECT_EQ(alone, 3) << explain(*plan);
  EXPECT_NE(explain(*plan).find("3 kernels of nothing else"), std::string::npos) << explain(*plan);
}

/// The casts between float types that explain() counts, and the kernels of nothing else.
std::pair<int64_t, int64_t> casts_by_explain(const Plan& plan) {
  const std::string text = explain(plan, 200);
  std::smatch found;
  if (!std::regex_search(text, found,
                         std::regex("([0-9]+) casts between float types, ([0-9]+) kernels? of nothing else")))
    return {0, 0};
  return {std::stoll(found[1]), std::stoll(found[2])};
}

TEST(Autocast, ExplainCountsCasts) {
  const Tensor x = uniform({64, 64}, -1, 1), w = uniform({64, 64}, -1, 1);
  eval({x, w});
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f16}) {
    const Autocast scope(precision);
    const Tensor y = matmul(relu(matmul(x, w) * 2 + 1), w);
    // By themselves: x, w (once) and the result. In the loop between the products: what it reads and writes.
    const std::pair<int64_t, int64_t> casts = precision == Precision::f32 ? std::pair(0, 0) : std::pair(5, 3);
    EXPECT_EQ(casts_by_explain(*plan_for({y})), casts) << to_string(precision);
  }
}

// Loops that share a launch count once each: those of a chain have casts of their own, and those that a
// launch computes for several values have the same.
TEST(Autocast, ExplainCountsCastsOfLoopsThatShareALaunch) {
  const Device gpu = parse_device("offline");  // which need not exist: one can make plans for it
  constexpr int64_t rows = 2048, features = 96;
  const auto step = [&](Precision precision) {
    const Autocast scope(precision);
    Tensor x = Tensor::from(HostArray(DType::f32, {rows, features}), gpu);
    std::vector<Tensor> weights;
    for (int layer = 0; layer < 3; ++layer)
      weights.push_back(Tensor::from(HostArray(DType::f32, {features, features}), gpu).requires_grad());
    Tensor h = x;
    for (const Tensor& w : weights) h = h + matmul(layer_norm(h, 1), w);
    sum(h * h).backward();
    std::vector<Tensor> results;
    for (const Tensor& w : weights) results.push_back(w.grad());
    return plan_for(results);
  };
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    const auto shared = step(precision);
    EXPECT_TRUE(std::ranges::any_of(shared->steps,
                                    [](const PlanStep& one) { return one.chained && one.loops.size() > 1; }));
    EXPECT_TRUE(std::ranges::any_of(
        shared->steps, [](const PlanStep& one) { return !one.chained && one.loops.size() > 1; }));
    const ScopedDisable apart("chain,join");
    int64_t casts = 0;
    for (const PlanStep& one : step(precision)->steps) {
      ASSERT_LE(one.loops.size(), 1U);
      casts += std::ranges::count_if(one.ops, [](const auto& op) { return op.starts_with("cast to "); });
    }
    EXPECT_GT(casts, 12) << explain(*shared);
    EXPECT_EQ(casts_by_explain(*shared).first, casts) << explain(*shared);
  }
}

TEST(Precision, HasNames) {
  for (const std::string& name : precision_names()) EXPECT_EQ(to_string(parse_precision(name)), name);
  EXPECT_THROW(parse_precision("fp16"), Error);
}

// What one loop has in registers another reads rounded: then no element equals the largest.
TEST(Autocast, TheLargestOfRoundedValuesHasAGradient) {
  const auto gradients = [](Precision precision, DType dtype, const Axes& axes, bool largest) {
    manual_seed(5);
    Tensor x = cast(uniform({6, 9, 7}, -1, 1), dtype).eval();
    const Tensor w = cast(uniform({7, 5}, -1, 1), dtype).eval();
    x.requires_grad();
    const Autocast scope(precision);
    const Tensor y = tanh(matmul(x, w) * 0.4) * 3.0;
    return cast(grad({sum(largest ? max(y, axes) : min(y, axes))}, {x})[0], DType::f64).to_vector<double>();
  };
  for (const Axes& axes : {Axes(2), Axes(0), Axes({1, 2}), Axes({0, 2}), Axes()})
    for (const bool largest : {true, false}) {
      const auto exact = gradients(Precision::f32, DType::f32, axes, largest);
      double size = 0;
      for (const double g : exact) size += std::abs(g);
      for (const auto& [precision, dtype] :
           {std::pair(Precision::bf16, DType::f32), std::pair(Precision::f16, DType::f32),
            std::pair(Precision::f32, DType::f16), std::pair(Precision::f32, DType::bf16)}) {
        const auto got = gradients(precision, dtype, axes, largest);
        double difference = 0;  // where two elements are nearly equal, the other one may get the gradient
        for (size_t i = 0; i < got.size(); ++i) difference += std::abs(got[i] - exact[i]);
        EXPECT_LT(difference, 0.25 * size)
            << to_string(precision) << " " << to_string(dtype) << " " << axes.list.size() << " " << largest;
      }
    }
}

// The same where only what the elements are computed from is rounded.
TEST(Autocast, TheLargestOfWhatIsComputedFromRoundedValuesHasAGradient) {
  const auto gradient = [](DType dtype) {
    Tensor x = linspace(0.31, 1.33, 24).eval();
    x.requires_grad();
    const auto curve = [](const Tensor& h) { return tanh(h) * h + 0.5; };
    const auto loss = [&] { return sum(min(cast(curve(cast(x, dtype)), DType::f32)) * x); };
    return grad({loss()}, {x})[0].to_vector<float>();
  };
  const auto got = gradient(DType::f16), exact = gradient(DType::f32);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], exact[i], 0.05) << i;
}

}  // namespace
}  // namespace athanor
