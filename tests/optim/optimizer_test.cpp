// Optimizers and clipping compared with PyTorch's trajectories; state dicts and errors.
#include "athanor/optim/optimizer.h"

#include <gtest/gtest.h>

#include "../nn/reference.h"
#include "../support/expect_error.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/reduction.h"
#include "athanor/optim/optim.h"

namespace athanor::optim {
namespace {

using nn::Parameter;
using testing::expect_error;
using testing::expect_near;
using testing::read_reference;

constexpr double tolerance = 2e-6;

struct Pair : nn::Module {
  Parameter a = add_parameter("a", nn::init::zeros({3, 4}));
  Parameter b = add_parameter("b", nn::init::zeros({5}));
  Tensor forward(const Tensor& x) override { return x; }
};

const auto& reference() {
  static const auto all = read_reference("optim");
  return all;
}

void set_gradients(const Pair& p, int step) {
  p.a.set_grad(Tensor::from(reference().at("grad." + std::to_string(step) + ".a")));
  p.b.set_grad(Tensor::from(reference().at("grad." + std::to_string(step) + ".b")));
}

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>)>;

void check(const std::string& name, double lr, const Make& make) {
  SCOPED_TRACE(name);
  Pair p;
  p.load_state_dict({{"a", reference().at("start.a")}, {"b", reference().at("start.b")}});
  const auto optimizer = make(p.parameters());
  for (int step = 0; step < 10; ++step) {
    set_gradients(p, step);
    optimizer->set_lr(lr * (1 - 0.05 * step));
    optimizer->step();
    EXPECT_FALSE(p.a.grad().defined());
    const std::string at = name + "." + std::to_string(step);
    expect_near(p.a, reference().at(at + ".a"), tolerance, at + ".a");
    expect_near(p.b, reference().at(at + ".b"), tolerance, at + ".b");
  }
  EXPECT_EQ(optimizer->steps(), 10);
  const auto state = optimizer->state_dict();
  const auto of_a = testing::under(state, "a.");
  for (const auto& [key, array] : testing::under(reference(), name + ".state."))
    expect_near(of_a.at(key), array, tolerance, key);
}

template <class O, class Options>
Make maker(Options options) {
  return [options](std::vector<Parameter> p) { return std::make_unique<O>(std::move(p), options); };
}

TEST(Optimizer, SgdAsPyTorch) {
  check("sgd", 0.1, maker<Sgd>(SgdOptions{.lr = 0.1}));
  check("sgd_decay", 0.1, maker<Sgd>(SgdOptions{.lr = 0.1, .weight_decay = 0.05}));
  check("sgd_momentum", 0.1, maker<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9}));
  check("sgd_dampened", 0.1,
        maker<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.05}));
  check("sgd_nesterov", 0.1,
        maker<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true}));
}

TEST(Optimizer, AdamAsPyTorch) {
  check("adam", 0.01, maker<Adam>(AdamOptions{.lr = 0.01}));
  check("adam_decay", 0.01,
        maker<Adam>(AdamOptions{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1}));
  check("adamw", 0.01, maker<AdamW>(AdamWOptions{.lr = 0.01}));
  check("adamw_decay", 0.01,
        maker<AdamW>(AdamWOptions{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.3}));
}

TEST(Optimizer, SavedAndLoadedGoesOnWithTheSameNumbers) {
  for (const std::string& name : optimizer_names()) {
    Pair whole, resumed;
    const auto make = [&](const Pair& p) {
      return make_optimizer(name, p.parameters(), {.lr = 0.05, .weight_decay = 0.1});
    };
    const auto first = make(whole);
    for (int step = 0; step < 5; ++step) set_gradients(whole, step), first->step();
    first->set_lr(0.02);
    const auto model = whole.state_dict(), state = first->state_dict();
    const auto second = make(resumed);
    resumed.load_state_dict(model);
    second->load_state_dict(state);
    EXPECT_EQ(second->steps(), 5);
    EXPECT_EQ(second->lr(), 0.02);
    for (int step = 5; step < 10; ++step) {
      set_gradients(whole, step), first->step();
      set_gradients(resumed, step), second->step();
    }
    EXPECT_EQ(whole.a.value().to_vector<float>(), resumed.a.value().to_vector<float>()) << name;
    EXPECT_EQ(whole.b.value().to_vector<float>(), resumed.b.value().to_vector<float>()) << name;
  }
}

TEST(Optimizer, ParameterGroups) {
  Pair p;
  std::vector<ParamGroup> groups{{.parameters = {p.a}, .weight_decay = 0.0},
                                 {.parameters = {p.b}, .lr_factor = 10}};
  p.load_state_dict({{"a", reference().at("start.a")}, {"b", reference().at("start.b")}});
  Sgd optimizer(groups, {.lr = 0.1, .weight_decay = 0.5});
  const auto a = p.a.value().to_vector<float>(), b = p.b.value().to_vector<float>();
  p.a.set_grad(Tensor::from(std::vector<float>(12, 1), {3, 4}));
  p.b.set_grad(Tensor::from(std::vector<float>(5, 1), {5}));
  optimizer.step();
  const auto a2 = p.a.value().to_vector<float>(), b2 = p.b.value().to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a2[i], a[i] - 0.1F, 1e-6);
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(b2[i], b[i] - (1 + 0.5F * b[i]), 1e-6);
}

TEST(Optimizer, WithoutAGradientAParameterStays) {
  Pair p;
  Adam optimizer(p.parameters());
  p.a.set_grad(Tensor::from(std::vector<float>(12, 1), {3, 4}));
  optimizer.step();
  EXPECT_NE(p.a.value().to_vector<float>()[0], 0);
  EXPECT_EQ(p.b.value().to_vector<float>()[0], 0);
  expect_error(ErrorCode::value, {"without any gradient", "backward()", "optimizer_test.cpp"},
               [&] { optimizer.step(); });
  p.a.set_grad(Tensor::from(std::vector<float>(12, 1), {3, 4}));
  optimizer.zero_grad();
  EXPECT_FALSE(p.a.grad().defined());
}

TEST(Optimizer, OtherDtypes) {
  Parameter wide(Tensor::from<double>({1, 2}, {2})),
      narrow(cast(Tensor::from<float>({1, 2}, {2}), DType::bf16));
  for (const Parameter& p : {wide, narrow}) {
    Adam optimizer(std::vector{p}, {.lr = 0.25});
    p.set_grad(cast(Tensor::from<float>({1, -1}, {2}), p.dtype()));
    optimizer.step();
    const auto values = to_doubles(p.value().to_host());
    EXPECT_NEAR(values[0], 0.75, p.dtype() == DType::f64 ? 1e-8 : 1e-2);
    EXPECT_NEAR(values[1], 2.25, p.dtype() == DType::f64 ? 1e-8 : 2e-2);
  }
}

TEST(Optimizer, BadInput) {
  Pair p, other;
  expect_error(ErrorCode::value, {"'a' twice"}, [&] { Sgd(std::vector{p.a, p.a}); });
  expect_error(ErrorCode::value, {"two parameters named 'a'"}, [&] { Sgd(std::vector{p.a, other.a}); });
  expect_error(ErrorCode::value, {"no parameters"}, [] { Sgd(std::vector<Parameter>{}); });
  expect_error(ErrorCode::value, {"learning rate of -1"}, [&] { Sgd(p.parameters(), {.lr = -1}); });
  expect_error(ErrorCode::value, {"Nesterov"}, [&] { Sgd(p.parameters(), {.nesterov = true}); });
  expect_error(ErrorCode::value, {"beta"}, [&] { Adam(p.parameters(), {.beta1 = 1}); });
  expect_error(ErrorCode::name, {"'adamv'", "adam"}, [&] { make_optimizer("adamv", p.parameters()); });
  Adam optimizer(p.parameters());
  auto state = optimizer.state_dict();
  state.erase("a.exp_avg");
  expect_error(ErrorCode::name, {"the optimizer", "'a.exp_avg'"}, [&] { optimizer.load_state_dict(state); });
  state["a.exp_avg"] = HostArray(DType::f32, {4, 3});
  expect_error(ErrorCode::shape, {"f32[4, 3]", "f32[3, 4]"}, [&] { optimizer.load_state_dict(state); });
}

TEST(Clipping, AsPyTorch) {
  for (const std::string name : {"above", "below"}) {
    Pair p;
    set_gradients(p, 0);
    const Tensor norm = clip_grad_norm(p.parameters(), name == "above" ? 1.5 : 100);
    expect_near(norm, reference().at("clip." + name + ".norm"), tolerance, name);
    expect_near(p.a.grad(), reference().at("clip." + name + ".a"), tolerance, name);
    expect_near(p.b.grad(), reference().at("clip." + name + ".b"), tolerance, name);
  }
  Pair p;
  set_gradients(p, 0);
  clip_grad_value({p.a}, 0.5);
  expect_near(p.a.grad(), reference().at("clip.value.a"), 0, "value");
  expect_error(ErrorCode::value, {"norm of 0", "optimizer_test.cpp"}, [&] { clip_grad_norm({p.a}, 0); });
}

}  // namespace
}  // namespace athanor::optim
