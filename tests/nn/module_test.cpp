// The module tree: names, state dicts, modes, moves.
#include "athanor/nn/module.h"

#include <gtest/gtest.h>

#include "../support/expect_error.h"
#include "../support/temp_folder.h"
#include "athanor/formats/safetensors.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/reduction.h"
#include "athanor/runtime/evaluate.h"

namespace athanor::nn {
namespace {

using testing::expect_error;

class Perceptron : public Module {
 public:
  explicit Perceptron(int64_t hidden = 4)
      : fc1(add("fc1", Linear(3, hidden))), fc2(add("fc2", Linear(hidden, 2))) {}
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))) * scale; }
  Linear &fc1, &fc2;
  Parameter scale = add_parameter("scale", init::ones({2}));
};

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : module.named_parameters()) names.push_back(name);
  return names;
}

TEST(Module, NamesParametersByTheirPath) {
  Sequential net;
  net.append("body", Perceptron());
  net.append(BatchNorm1d(2));
  const std::vector<std::string> expected{"body.scale",      "body.fc1.weight", "body.fc1.bias",
                                          "body.fc2.weight", "body.fc2.bias",   "1.weight",
                                          "1.bias"};
  EXPECT_EQ(names_of(net), expected);
  for (const auto& [name, parameter] : net.named_parameters()) EXPECT_EQ(parameter.name(), name);
  // relative to the module on which it is called
  EXPECT_EQ(names_of(*net.children()[0].second).front(), "scale");
  EXPECT_EQ(net.named_buffers().back().first, "1.num_batches_tracked");
  EXPECT_EQ(net.parameter_count(), 2 + 3 * 4 + 4 + 4 * 2 + 2 + 2 + 2);
}

TEST(Module, AddingLaterNamesFromTheRoot) {
  Sequential net;
  auto& inner = net.append("inner", Sequential());
  auto& layer = inner.append("late", Linear(1, 1));
  EXPECT_EQ(layer.weight.name(), "inner.late.weight");
}

TEST(Module, NodesCarryThePathOfTheInnermostModule) {
  Sequential net;
  auto& body = net.append("body", Perceptron());
  const Tensor x = Tensor::from<float>({1, 2, 3}, {1, 3});
  const Tensor y = net(x);
  ASSERT_NE(y.node()->part, nullptr);
  EXPECT_EQ(*y.node()->part, "body");
  EXPECT_EQ(*body.fc2(Tensor::from<float>({1, 2, 3, 4}, {1, 4})).node()->part, "body.fc2");
  EXPECT_EQ((x + x).node()->part, nullptr);  // the scope has ended
}

TEST(Module, GradientsCarryThePathOfWhatTheyDifferentiate) {
  Sequential net;
  net.append("body", Perceptron());
  sum(net(Tensor::from<float>({1, 2, 3}, {1, 3}))).backward();
  for (const auto& [name, parameter] : net.named_parameters()) {
    ASSERT_NE(parameter.grad().node()->part, nullptr) << name;
    EXPECT_EQ(*parameter.grad().node()->part + name.substr(name.rfind('.')), name);
  }
}

TEST(Module, PlansNameThePartsAndDoNotDependOnThem) {
  const auto plan_of = [](const std::string& name) {
    Sequential net;
    net.append(name, Linear(3, 2));
    const Tensor x = Tensor::from<float>({1, 2, 3}, {1, 3});
    eval({net.children()[0].second->parameters()[0], net.children()[0].second->parameters()[1]});
    return plan_for({net(x)});
  };
  const auto plan = plan_of("first");
  EXPECT_EQ(plan->steps[0].parts, std::vector<std::string>{"first"});
  EXPECT_NE(explain(*plan).find("first"), std::string::npos);
  EXPECT_EQ(plan_of("second"), plan);
}

TEST(Module, SharedParametersCountOnce) {
  class Tied : public Module {
   public:
    Tied() : embedding(add("embedding", Embedding(5, 3))), out(add_parameter("out", embedding.weight)) {}
    Tensor forward(const Tensor& x) override { return sum(embedding(x)) + sum(out.value()); }
    Embedding& embedding;
    Parameter out;
  };
  Tied tied;
  EXPECT_EQ(tied.parameters().size(), 1U);
  tied(Tensor::from<int64_t>({2}, {1})).backward();
  std::vector<float> expected(15, 1);
  for (size_t i = 6; i < 9; ++i) expected[i] = 2;
  EXPECT_EQ(tied.embedding.weight.grad().to_vector<float>(), expected);
}

TEST(Module, RefusesBadNames) {
  Sequential net;
  net.append("a", ReLU());
  expect_error(ErrorCode::name, {"'a'"}, [&] { net.append("a", ReLU()); });
  expect_error(ErrorCode::name, {"'a.b'"}, [&] { net.append("a.b", ReLU()); });
  expect_error(ErrorCode::name, {"''"}, [&] { net.append("", ReLU()); });
}

TEST(Module, StateDictRoundTrip) {
  manual_seed(3);
  Perceptron first, second;
  const Tensor x = Tensor::from<float>({1, -2, 3, 0.5, 0.25, -1}, {2, 3});
  EXPECT_NE(first(x).to_vector<float>(), second(x).to_vector<float>());
  const testing::TempFolder folder;
  write_safetensors(folder / "state.safetensors", {first.state_dict(), {}});
  second.load_state_dict(read_safetensors(folder / "state.safetensors").tensors);
  EXPECT_EQ(first(x).to_vector<float>(), second(x).to_vector<float>());
  // The loaded values are leaves that collect gradients.
  sum(second(x)).backward();
  EXPECT_TRUE(second.fc1.weight.grad().defined());
}

TEST(Module, LoadConvertsDtypes) {
  Linear layer(2, 1);
  StateDict state;
  state.emplace("weight", HostArray::of<double>({1, 2}, std::vector<double>{1.5, -2}));
  state.emplace("bias", HostArray::of<int64_t>({1}, std::vector<int64_t>{7}));
  layer.load_state_dict(state);
  EXPECT_EQ(layer(Tensor::from<float>({2, 1}, {1, 2})).item(), 8);
}

TEST(Module, LoadRefusesWhatDoesNotFitAndChangesNothing) {
  manual_seed(3);
  Perceptron model;
  const StateDict before = model.state_dict();
  StateDict renamed = before;
  renamed["fc1.wieght"] = renamed.at("fc1.weight");
  renamed.erase("fc1.weight");
  renamed["scale"] = HostArray(DType::f32, {2});
  expect_error(ErrorCode::name, {"lacks 'fc1.weight'", "has 'fc1.wieght' besides", "meant as 'fc1.weight'"},
               [&] { model.load_state_dict(renamed); });
  expect_error(ErrorCode::name, {"lacks 'fc1.weight', 'fc1.bias', 'fc2.weight', 'fc2.bias'"}, [&] {
    StateDict only_scale;
    only_scale["scale"] = HostArray(DType::f32, {2});
    model.load_state_dict(only_scale);
  });
  expect_error(ErrorCode::shape, {"'fc1.weight'", "f32[9, 3]", "f32[4, 3]"}, [&] {
    StateDict other = Perceptron(9).state_dict();
    other["fc1.bias"] = before.at("fc1.bias");
    other["fc2.weight"] = before.at("fc2.weight");
    model.load_state_dict(other);
  });
  for (const auto& [name, array] : model.state_dict()) EXPECT_EQ(array.bytes, before.at(name).bytes) << name;
}

TEST(Module, TrainAndEvalReachAllChildren) {
  Sequential net(Sequential(Dropout()), BatchNorm1d(2));
  EXPECT_TRUE(net.children()[0].second->children()[0].second->training());
  net.eval();
  EXPECT_FALSE(net.training());
  EXPECT_FALSE(net.children()[0].second->children()[0].second->training());
  net.train();
  EXPECT_TRUE(net.children()[1].second->training());
}

TEST(Module, SurvivesAMove) {
  manual_seed(5);
  const Tensor x = Tensor::from<float>({1, 2, 3}, {1, 3});
  Perceptron first;
  // Compute the values first: a plan that also draws them is another program, whose sums may be rounded
  // differently.
  for (const auto& [name, parameter] : first.named_parameters()) parameter.value().to_vector<float>();
  const auto expected = first(x).to_vector<float>();
  Perceptron second = std::move(first);
  EXPECT_EQ(second(x).to_vector<float>(), expected);
  EXPECT_EQ(names_of(second).size(), 5U);
}

TEST(Parameter, AssignKeepsTheLeafAndChecksTheType) {
  Parameter p(Tensor::from<float>({1, 2}, {2}));
  sum(p.value() * 3).backward();
  p.assign(p.value() + 1);  // recorded, but the history is cut off
  EXPECT_EQ(p.grad().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(p.value().to_vector<float>(), (std::vector<float>{2, 3}));
  p.set_grad({});
  sum(square(p.value())).backward();
  EXPECT_EQ(p.take_grad().to_vector<float>(), (std::vector<float>{4, 6}));
  EXPECT_FALSE(p.grad().defined());
  expect_error(ErrorCode::shape, {"f32[3]", "f32[2]"}, [&] { p.assign(init::zeros({3})); });
  expect_error(ErrorCode::dtype, {"i64[2]"}, [&] { p.assign(Tensor::from<int64_t>({1, 2}, {2})); });
  expect_error(ErrorCode::dtype, {"i64"}, [] { Parameter(Tensor::from<int64_t>({1}, {1})); });
}

TEST(Parameter, AssignDoesNotCaptureAnotherParametersLeaf) {
  Parameter a(Tensor::from<float>({1}, {1})), b(Tensor::from<float>({5}, {1}));
  b.assign(a.value());
  sum(a.value() * 2).backward();
  EXPECT_EQ(a.grad().item(), 2);
  EXPECT_FALSE(b.grad().defined());
  EXPECT_EQ(b.value().item(), 1);
}

TEST(Module, Summary) {
  Sequential net(Conv2d(3, 8, 3, {.stride = 2, .padding = 1, .bias = false}), BatchNorm2d(8), Flatten(),
                 Linear(2048, 1000));
  const std::string text = to_string(net);
  for (const char* part : {"Conv2d(3 -> 8, 3x3, stride 2, padding 1, no bias)", "BatchNorm2d(8)", "2,049,000",
                           "2,049,232 parameters (7.82 MiB)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

}  // namespace
}  // namespace athanor::nn
