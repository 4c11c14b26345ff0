// Each pass by itself: what it changes, and that the meaning stays the same.
#include <gtest/gtest.h>

#include "athanor/compile/graph.h"
#include "athanor/compile/views.h"
#include "athanor/graph/op.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {
namespace {

// Builds graphs by hand: inputs with a shape, and ops on earlier nodes.
class Builder {
 public:
  int input(const Shape& shape, DType dtype = DType::f32) {
    GraphNode node{.op = &find_op("input"),
                   .attrs = {},
                   .inputs = {},
                   .type = {dtype, shape, {}},
                   .layout = {},
                   .epilogue = {},
                   .where = {}};
    graph.inputs.push_back(graph.add(std::move(node)));
    return graph.inputs.back();
  }
  int op(const std::string& name, const std::vector<int>& inputs, Attrs attrs = {}) {
    const Op& op = find_op(name);
    std::vector<TensorType> types;
    for (int i : inputs) types.push_back(graph[i].type);
    GraphNode node{.op = &op,
                   .attrs = attrs,
                   .inputs = inputs,
                   .type = op.infer(types, attrs),
                   .layout = {},
                   .epilogue = {},
                   .where = {}};
    return graph.add(std::move(node));
  }
  Graph output(int id) {
    graph.outputs = {id};
    return graph;
  }
  Graph graph;
};

int count(const Graph& graph, const std::string& op) {
  int n = 0;
  for (const auto& node : graph.nodes) n += node.op->name == op;
  return n;
}

TEST(Simplify, SharesCommonSubexpressions) {
  Builder b;
  const int x = b.input({3});
  const Graph g = simplify(b.output(b.op("add", {b.op("exp", {x}), b.op("exp", {x})})));
  EXPECT_EQ(count(g, "exp"), 1);
}

TEST(Simplify, DropsIdentities) {
  Builder b;
  const int x = b.input({3});
  const int zero = b.op("broadcast", {b.op("constant", {}, {{"value", 0.0}, {"dtype", DType::f32}})},
                        {{"shape", Ints{3}}});
  const int one = b.op("broadcast", {b.op("constant", {}, {{"value", 1.0}, {"dtype", DType::f32}})},
                       {{"shape", Ints{3}}});
  const int y = b.op("div", {b.op("mul", {one, b.op("sub", {b.op("add", {x, zero}), zero})}), one});
  const Graph g = simplify(b.output(b.op("reshape", {y}, {{"shape", Ints{3}}})));
  EXPECT_EQ(g.nodes.size(), 1U) << to_string(g);
}

TEST(Simplify, KeepsInputsThatNothingUses) {
  Builder b;
  b.input({2});
  const int y = b.input({2});
  const Graph g = simplify(b.output(b.op("neg", {y})));
  EXPECT_EQ(g.inputs.size(), 2U);
}

TEST(Simplify, MergesMovement) {
  Builder b;
  const int x = b.input({2, 3, 4});
  const int there = b.op("permute", {x}, {{"axes", Ints{2, 0, 1}}});
  const int back = b.op("permute", {there}, {{"axes", Ints{1, 2, 0}}});
  EXPECT_EQ(simplify(b.output(back)).nodes.size(), 1U);
}

TEST(Simplify, ASumOfPadsIsAConcatenation) {
  Builder b;
  const int x = b.input({2, 3}), y = b.input({2, 5}), z = b.input({2, 1});
  const auto padded = [&](int piece, int64_t low, int64_t high) {
    return b.op("pad", {piece}, {{"low", Ints{0, low}}, {"high", Ints{0, high}}, {"value", 0.0}});
  };
  // The order does not matter; here the two pieces that are not neighbours are added first.
  const int ends = b.op("add", {padded(z, 8, 0), padded(x, 0, 6)});
  const Graph whole = simplify(b.output(b.op("add", {padded(y, 3, 1), ends})));
  ASSERT_EQ(whole.nodes.size(), 4U) << to_string(whole);
  EXPECT_EQ(whole.nodes[3].op->name, "concat");
  EXPECT_EQ(whole.nodes[3].inputs, (std::vector<int>{x, y, z}));
  EXPECT_EQ(whole.nodes[3].type.shape, (Shape{2, 9}));
  const Graph part = simplify(b.output(b.op("add", {padded(y, 3, 1), padded(x, 0, 6)})));
  EXPECT_EQ(count(part, "concat"), 1) << to_string(part);
  EXPECT_EQ(count(part, "pad"), 1) << "for the last element of the axis";
  // The first pair overlaps, the second one leaves a gap.
  for (const int other : {padded(y, 2, 2), padded(y, 4, 0)}) {
    const Graph none = simplify(b.output(b.op("add", {other, padded(x, 0, 6)})));
    EXPECT_EQ(count(none, "concat"), 0) << to_string(none);
  }
}

TEST(Simplify, TheGradientOfChunkIsItsPiecesGradientsJoined) {
  Tensor x = uniform({4, 6});
  x.requires_grad();
  const Tensor w = uniform({4, 2}), v = uniform({4, 2});
  const auto pieces = chunk(x, 3, 1);
  const Tensor loss = sum(pieces[2] * v) + sum(exp(pieces[0])) + sum(pieces[1] * w);
  const Tensor dx = grad({loss}, {x})[0];
  const auto plan = plan_for({dx});
  int pads = 0, concats = 0;
  for (const auto& step : plan->steps) pads += step.name() == "pad", concats += step.name() == "concat";
  EXPECT_EQ(pads, 0) << explain(*plan);
  EXPECT_EQ(concats, 1) << explain(*plan);
  const auto got = dx.to_vector<float>(), first = exp(x).to_vector<float>(), second = w.to_vector<float>(),
             third = v.to_vector<float>();
  for (size_t row = 0; row < 4; ++row)
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_FLOAT_EQ(got[row * 6 + i], first[row * 6 + i]);
      EXPECT_EQ(got[row * 6 + 2 + i], second[row * 2 + i]);
      EXPECT_EQ(got[row * 6 + 4 + i], third[row * 2 + i]);
    }
}

TEST(Orient, ATransposedProductIsAProductOfTransposes) {
  Builder b;
  const int x = b.input({1, 4, 5}), y = b.input({1, 5, 6});
  const int flat = b.op("reshape", {b.op("batch_matmul", {x, y})}, {{"shape", Ints{4, 6}}});
  const Graph g = simplify(orient_products(b.output(b.op("permute", {flat}, {{"axes", Ints{1, 0}}}))));
  int products = 0;
  for (const auto& node : g.nodes)
    if (node.op->name == "batch_matmul") {
      EXPECT_EQ(node.type.shape, (Shape{1, 6, 4}));
      ++products;
    }
  EXPECT_EQ(products, 1);
}

// A weight that lies [in, out] and is transposed for a linear layer: so is its gradient, twice. Of several
// transpositions only an odd one is left, and the product is turned for it.
TEST(Orient, SeveralTranspositionsTurnAProductOnceOrNot) {
  for (const int times : {2, 3, 4, 5}) {
    Builder b;
    const int x = b.input({1, 4, 5}), y = b.input({1, 5, 6});
    int result = b.op("reshape", {b.op("batch_matmul", {x, y})}, {{"shape", Ints{4, 6}}});
    for (int i = 0; i < times; ++i) result = b.op("permute", {result}, {{"axes", Ints{1, 0}}});
    const Graph g = simplify(orient_products(b.output(result)));
    int products = 0;
    for (const auto& node : g.nodes) {
      EXPECT_NE(to_string(node.type.shape), times % 2 == 0 ? "[6, 4]" : "[4, 6]");
      if (node.op->name != "batch_matmul") continue;
      EXPECT_EQ(node.type.shape, (times % 2 == 0 ? Shape{1, 4, 6} : Shape{1, 6, 4}));
      ++products;
    }
    EXPECT_EQ(products, 1);
  }
}

TEST(Views, SlicesPermutesAndBroadcastsCostNothing) {
  Builder b;
  const int x = b.input({4, 6});
  const int s = b.op("slice", {x}, {{"start", Ints{3, 1}}, {"size", Ints{2, 3}}, {"step", Ints{-2, 2}}});
  const int p = b.op("permute", {s}, {{"axes", Ints{1, 0}}});
  const int r = b.op("broadcast", {p}, {{"shape", Ints{5, 3, 2}}});
  const Graph g = b.output(r);
  const View view = find_views(g)[static_cast<size_t>(r)];
  EXPECT_EQ(view.base, x);
  EXPECT_EQ(view.offset, 3 * 6 + 1);
  EXPECT_EQ(view.strides, (Ints{0, 2, -12}));
}

TEST(Views, AReshapeOfTransposedMemoryIsCopied) {
  Builder b;
  const int x = b.input({4, 6});
  const int t = b.op("permute", {x}, {{"axes", Ints{1, 0}}});
  const int split = b.op("reshape", {t}, {{"shape", Ints{2, 3, 4}}});  // splits an axis: a view
  const int flat = b.op("reshape", {t}, {{"shape", Ints{24}}});        // joins two axes: not a view
  b.graph.outputs = {b.op("neg", {split}), b.op("neg", {flat})};
  EXPECT_EQ(count(add_copies(b.graph), "cast"), 1);
}

TEST(Layout, StaysBlockedBetweenConvolutions) {
  const Tensor x = uniform({2, 16, 8, 8}), w1 = uniform({32, 16, 3, 3}), w2 = uniform({16, 32, 3, 3});
  const Tensor y = conv2d(relu(conv2d(x, w1) * 2.0), w2);
  const auto plan = plan_for({y});
  int reorders = 0;
  bool blocked = false;
  for (const auto& step : plan->steps) reorders += step.name() == "reorder";
  for (const auto& value : plan->values) blocked |= value.layout.block != 0;
  if (!blocked) GTEST_SKIP() << "this CPU or build has no blocked convolutions";
  EXPECT_EQ(reorders, 2) << explain(*plan);  // at the input and at the output
}

TEST(Passes, ResultsAgreeWhateverIsSwitchedOff) {
  manual_seed(3);
  const Tensor x = normal({4, 16, 9, 9}), w = normal({32, 16, 3, 3}, 0, 0.1), b = normal({32}),
               scale = normal({32}), shift = normal({32});
  const Tensor fc = normal({10, 32 * 16}, 0, 0.1), labels = Tensor::from<int64_t>({1, 9, 0, 3}, {4});
  eval({x, w, b, scale, shift, fc});
  const auto losses = [&] {
    Tensor w1 = w + 0.0, fc1 = fc + 0.0;
    w1.requires_grad(), fc1.requires_grad();
    const Tensor h = relu(batch_norm(conv2d(x, w1, b, {.padding = 1}), scale, shift));
    const Tensor loss = cross_entropy(matmul(flatten(max_pool2d(h, 2), 1), transpose(fc1)), labels);
    loss.backward();
    return std::vector<double>{loss.item(), norm(w1.grad()).item(), norm(fc1.grad()).item()};
  };
  const auto expected = losses();
  for (const char* off : {"dedicated", "epilogue", "simplify", "layout", "fuse", "inplace", "join", "tune",
                          "dedicated,fuse,simplify,layout,inplace"}) {
    const ScopedDisable disable(off);
    const auto got = losses();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 2e-4 * std::abs(expected[i])) << off << " " << i;
  }
}

}  // namespace
}  // namespace athanor
