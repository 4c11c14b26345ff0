// Loss scaling: comparisons with PyTorch's GradScaler, and the effects of scaling.
#include "athanor/optim/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../nn/reference.h"
#include "../support/expect_error.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"

namespace athanor::optim {
namespace {

using testing::expect_error;
using testing::expect_near;

const auto& scaling() {
  static const auto all = testing::read_reference("scaling");
  return all;
}

struct Two : nn::Module {
  nn::Parameter a = add_parameter("a", nn::init::zeros({3, 4}));
  nn::Parameter b = add_parameter("b", nn::init::zeros({5}));
  Tensor forward(const Tensor& x) override { return x; }
};

double infinity() { return std::numeric_limits<double>::infinity(); }

Tensor given(const std::string& name) { return Tensor::from(scaling().at(name)); }

constexpr GradScalerOptions quick{.initial_scale = 1024, .growth = 4, .growth_interval = 3, .back_off = 0.25};

void make_step(const Two& p, Optimizer& optimizer, GradScaler& scaler, int step, bool clip) {
  const std::string at = "grad." + std::to_string(step);
  scaler.scale(sum(p.a * given(at + ".a")) + sum(p.b * given(at + ".b"))).backward();
  if (clip) {
    scaler.unscale(p.parameters());
    clip_grad_norm(p.parameters(), 1.5);
  }
  scaler.step(optimizer);
  scaler.update();
}

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<nn::Parameter>)>;

void check(const std::string& name, bool clip, const Make& make) {
  SCOPED_TRACE(name);
  Two p;
  p.load_state_dict({{"a", scaling().at("start.a")}, {"b", scaling().at("start.b")}});
  const auto optimizer = make(p.parameters());
  GradScaler scaler({}, quick);
  int64_t skipped = 0;
  for (int step = 0; step < 14; ++step) {
    make_step(p, *optimizer, scaler, step, clip);
    const std::string at = name + "." + std::to_string(step);
    expect_near(p.a, scaling().at(at + ".a"), 5e-6, at + ".a");
    expect_near(p.b, scaling().at(at + ".b"), 5e-6, at + ".b");
    expect_near(scaler.scale(), scaling().at(at + ".scale"), 0, at + ".scale");
    skipped += step == 0 || step == 1 || step == 6 || step == 12;
    EXPECT_EQ(scaler.skipped().item(), static_cast<double>(skipped)) << at;
    EXPECT_EQ(to_doubles(scaler.state_dict().at("growth_tracker"))[0],
              to_doubles(scaling().at(at + ".tracker"))[0])
        << at;
  }
}

TEST(GradScaler, AsPyTorch) {
  check("sgd", false, [](auto p) {
    return std::make_unique<Sgd>(p, SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2});
  });
  check("adam", false, [](auto p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.05}); });
  check("adamw", true, [](auto p) {
    return std::make_unique<AdamW>(
        p, AdamWOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.1});
  });
}

// Each parameter counts its own steps: those with a gradient that are not skipped. So momentum begins with
// its first gradient, and Adam corrects its means by its own number of steps. b has no gradient in steps 0, 1
// and 4; with the scaler, steps 0, 2 and 5 are skipped.
void check_late(const std::string& name, bool scaled, const Make& make) {
  SCOPED_TRACE(name);
  const auto late = testing::read_reference("late");
  Two p;
  p.load_state_dict({{"a", late.at("start.a")}, {"b", late.at("start.b")}});
  auto optimizer = make(p.parameters());
  GradScaler scaler({}, {.initial_scale = 1024});
  for (int step = 0; step < 10; ++step) {
    if (step == 4) {  // a resumed run goes on with the same numbers
      const auto saved = optimizer->state_dict();
      EXPECT_FALSE(saved.contains("a.step"));
      EXPECT_EQ(to_doubles(saved.at("b.step")), std::vector<double>{scaled ? 1.0 : 2.0});
      optimizer = make(p.parameters());
      optimizer->load_state_dict(saved);
    }
    const std::string gradient = "grad." + std::to_string(step);
    Tensor loss = sum(p.a * Tensor::from(late.at(gradient + ".a")));
    if (late.contains(gradient + ".b")) loss = loss + sum(p.b * Tensor::from(late.at(gradient + ".b")));
    if (scaled) {
      if (step == 0 || step == 2 || step == 5) loss = loss * infinity();
      scaler.scale(loss).backward();
      scaler.step(*optimizer);
      scaler.update();
    } else {
      loss.backward();
      optimizer->step();
    }
    const std::string at = name + (scaled ? ".scaled." : ".plain.") + std::to_string(step);
    expect_near(p.a, late.at(at + ".a"), 5e-6, at + ".a");
    expect_near(p.b, late.at(at + ".b"), 5e-6, at + ".b");
  }
}

TEST(GradScaler, EachParameterCountsItsStepsAsInPyTorchSgd) {
  for (const bool scaled : {false, true})
    check_late("sgd", scaled, [](auto p) {
      return std::make_unique<Sgd>(
          p, SgdOptions{.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.05});
    });
}

TEST(GradScaler, EachParameterCountsItsStepsAsInPyTorchAdam) {
  const AdamOptions options{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.05};
  for (const bool scaled : {false, true})
    check_late("adam", scaled, [&](auto p) { return std::make_unique<Adam>(p, options); });
}

TEST(GradScaler, EachParameterCountsItsStepsAsInPyTorchAdamW) {
  const AdamWOptions options{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.05};
  for (const bool scaled : {false, true})
    check_late("adamw", scaled, [&](auto p) { return std::make_unique<AdamW>(p, options); });
}

// A parameter that has a gradient in every other step needs one plan more, and no memory that grows.
TEST(GradScaler, OwnCountsNeedFewPlansAndNoMemory) {
  Two p;
  Adam optimizer(p.parameters());
  GradScaler scaler;
  const auto run = [&](int steps) {
    for (int step = 0; step < steps; ++step) {
      Tensor loss = sum(p.a * p.a + 1);
      if (step % 2 != 0) loss = loss + sum(p.b + 1);
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
      loss.item();
    }
  };
  reset_evaluation_stats();
  run(6);
  const auto plans = evaluation_stats().plans_compiled;
  const uint64_t memory = memory_use({}).current;
  run(20);
  EXPECT_EQ(evaluation_stats().plans_compiled, plans);
  EXPECT_EQ(memory_use({}).current, memory);
  EXPECT_EQ(to_doubles(optimizer.state_dict().at("b.step")), std::vector<double>{13});
}

// A step that is given up takes the counts of its parameters back too. A state with impossible counts is
// refused.
TEST(GradScaler, CountsGoBackAndAreChecked) {
  const auto late = testing::read_reference("late");
  Two p;
  p.load_state_dict({{"a", late.at("start.a")}, {"b", late.at("start.b")}});
  Adam optimizer(p.parameters());
  sum(p.a * p.a).backward();
  const auto mark = optimizer.mark();
  optimizer.step();
  ASSERT_TRUE(optimizer.go_back(mark));
  EXPECT_EQ(optimizer.steps(), 0);
  auto state = optimizer.state_dict();
  EXPECT_FALSE(state.contains("b.step"));
  const std::vector<int64_t> one{1};
  state.emplace("b.step", HostArray::of<int64_t>({}, one));
  expect_error(ErrorCode::value, {"b.step = 1", "0 steps"}, [&] { optimizer.load_state_dict(state); });

  sum(p.a * p.a).backward();
  optimizer.step();
  state = optimizer.state_dict();
  EXPECT_EQ(to_doubles(state.at("b.step")), std::vector<double>{0});
  state.erase("b.step");  // as older versions wrote it: the optimizer's number holds for every parameter
  optimizer.load_state_dict(state);
  EXPECT_FALSE(optimizer.state_dict().contains("b.step"));
}

TEST(GradScaler, GoesOnFromItsState) {
  const auto run = [](int save_at) {
    Two p;
    p.load_state_dict({{"a", scaling().at("start.a")}, {"b", scaling().at("start.b")}});
    auto optimizer = std::make_unique<Adam>(p.parameters(), AdamOptions{.lr = 0.05});
    auto scaler = std::make_unique<GradScaler>(Device{}, quick);
    for (int step = 0; step < 14; ++step) {
      if (step == save_at) {
        const auto saved = optimizer->state_dict(), scale = scaler->state_dict(), values = p.state_dict();
        optimizer = std::make_unique<Adam>(p.parameters(), AdamOptions{.lr = 0.05});
        scaler = std::make_unique<GradScaler>(Device{}, quick);
        optimizer->load_state_dict(saved);
        scaler->load_state_dict(scale);
        p.load_state_dict(values);
      }
      make_step(p, *optimizer, *scaler, step, true);
    }
    return p.state_dict().at("a").bytes;
  };
  EXPECT_EQ(run(7), run(-1));
}

// Each of two optimizers must have the same result as plain steps with its finite gradients.
TEST(GradScaler, LetsEachOptimizerSkipByItsOwnGradients) {
  const auto gradient = [](const std::string& name, int step) {
    return given("grad." + std::to_string(step) + "." + name);
  };
  const auto finite = [&](const std::string& name, int step) {
    for (const double x : to_doubles(gradient(name, step).to_host()))
      if (!std::isfinite(x)) return false;
    return true;
  };
  const auto fill = [](const Two& p) {
    p.load_state_dict({{"a", scaling().at("start.a")}, {"b", scaling().at("start.b")}});
  };
  for (const bool one_by_hand : {false, true}) {
    SCOPED_TRACE(one_by_hand);
    Two p, plain;
    fill(p), fill(plain);
    Adam a(group({p.a}), {.lr = 0.05}), plain_a(group({plain.a}), {.lr = 0.05});
    Adam b(group({p.b}), {.lr = 0.05}), plain_b(group({plain.b}), {.lr = 0.05});
    GradScaler scaler({}, quick);
    double scale = quick.initial_scale;
    int64_t in_row = 0, skipped = 0, only_one = 0;
    for (int step = 0; step < 14; ++step) {
      scaler.scale(sum(p.a * gradient("a", step)) + sum(p.b * gradient("b", step))).backward();
      if (one_by_hand) scaler.unscale({p.a});
      scaler.step(a);
      scaler.step(b);
      scaler.update();
      const bool good_a = finite("a", step), good_b = finite("b", step);
      if (good_a) plain.a.set_grad(gradient("a", step)), plain_a.step();
      if (good_b) plain.b.set_grad(gradient("b", step)), plain_b.step();
      only_one += good_a != good_b;
      skipped += !good_a || !good_b;
      in_row = good_a && good_b ? in_row + 1 : 0;
      if (in_row == quick.growth_interval) scale *= quick.growth, in_row = 0;
      if (!good_a || !good_b) scale *= quick.back_off;
      expect_near(p.a, plain.a.value().to_host(), 1e-6, "a");
      expect_near(p.b, plain.b.value().to_host(), 1e-6, "b");
      EXPECT_EQ(scaler.scale().item(), scale) << step;
      EXPECT_EQ(scaler.skipped().item(), static_cast<double>(skipped)) << step;
    }
    EXPECT_GT(only_one, 2);
  }
}

TEST(GradScaler, LetsOptimizersSkipTogetherThatAreUnscaledTogether) {
  Two p;
  p.load_state_dict({{"a", scaling().at("start.a")}, {"b", scaling().at("start.b")}});
  Sgd a(group({p.a}), {.lr = 0.1}), b(group({p.b}), {.lr = 0.1});
  GradScaler scaler;
  scaler.scale(sum(p.a * infinity()) + sum(p.b)).backward();
  scaler.unscale(p.parameters());
  clip_grad_norm(p.parameters(), 1);  // one gradient is infinite, so the factor is wrong for both
  scaler.step(a);
  scaler.step(b);
  scaler.update();
  expect_near(p.a, scaling().at("start.a"), 0, "a");
  expect_near(p.b, scaling().at("start.b"), 0, "b");
}

TEST(GradScaler, DoesNotGrowToInfinity) {
  Two p;
  Sgd sgd(group(p.parameters()), {.lr = 0.1});
  GradScaler scaler({}, {.initial_scale = 0x1p126, .growth = 4, .growth_interval = 1});
  scaler.scale(sum(p.a) * 0 + sum(p.b) * 0).backward();
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(scaler.scale().item(), 0x1p126);
  EXPECT_EQ(scaler.skipped().item(), 0);
}

TEST(GradScaler, NeedsItsCallsInOrder) {
  expect_error(ErrorCode::value, {}, [] { GradScaler({}, {.growth = 1}); });
  expect_error(ErrorCode::value, {}, [] { GradScaler({}, {.initial_scale = 0}); });
  expect_error(ErrorCode::value, {}, [] { GradScaler({}, {.back_off = 1}); });
  expect_error(ErrorCode::usage, {}, [] { GradScaler().update(); });
  Two p;
  GradScaler scaler;
  scaler.scale(sum(p.a) + sum(p.b)).backward();
  scaler.unscale(p.parameters());
  expect_error(ErrorCode::usage, {"'b'"}, [&] { scaler.unscale({p.b}); });

  Sgd a(group({p.a}), {.lr = 0.1}), b(group({p.b}), {.lr = 0.1});
  scaler.step(a);
  scaler.scale(sum(p.a) + sum(p.b)).backward();
  expect_error(ErrorCode::usage, {"second step"}, [&] { scaler.step(a); });
  expect_error(ErrorCode::usage, {"'a'"}, [&] { scaler.unscale({p.a}); });
  scaler.step(b);
  scaler.update();
  expect_error(ErrorCode::usage, {}, [&] { scaler.update(); });
  scaler.step(a);  // uses the gradient of the second backward()
  EXPECT_EQ(p.a.value().to_vector<float>()[0], -0.2F);
}

TEST(GradScaler, MakesOnePlanForAllSteps) {
  Two p;
  p.load_state_dict({{"a", scaling().at("start.a")}, {"b", scaling().at("start.b")}});
  Adam adam(group(p.parameters()), {.lr = 0.05});
  GradScaler scaler({}, quick);
  const auto step = [&](int n) {
    make_step(p, adam, scaler, n, true);
    eval({});
  };
  step(0);
  step(1);
  const int64_t compiled = evaluation_stats().plans_compiled;
  for (int n = 2; n < 8; ++n) step(n);
  EXPECT_EQ(evaluation_stats().plans_compiled, compiled);
}

TEST(GradScaler, SkipsUntilTheScaleFitsF16) {
  manual_seed(4);
  nn::Linear layer(8, 4);
  const Tensor x = uniform({16, 8}, -1, 1);
  eval({x});
  Sgd sgd(group(layer.parameters()), {.lr = 0.1});
  GradScaler scaler({}, {.initial_scale = 0x1p30, .growth_interval = 1000});
  const auto start = layer.weight.value().to_vector<float>();
  int64_t skipped = 0;
  for (int step = 0; step < 30; ++step) {
    {
      const Autocast scope(Precision::f16);
      scaler.scale(mse_loss(layer(x), zeros({16, 4}))).backward();
    }
    scaler.step(sgd);
    scaler.update();
    const bool moved = layer.weight.value().to_vector<float>() != start;
    skipped = static_cast<int64_t>(scaler.skipped().item());
    EXPECT_EQ(moved, skipped <= step) << step;  // skipped steps, and only they, leave the weights alone
    for (const float w : layer.weight.value().to_vector<float>()) ASSERT_TRUE(std::isfinite(w));
  }
  EXPECT_GT(skipped, 5);
  EXPECT_LT(skipped, 25);
  EXPECT_EQ(scaler.scale().item(), std::ldexp(1.0, 30 - static_cast<int>(skipped)));
}

/// A regression with such a small loss that its gradients vanish in f16. Returns the loss after some steps,
/// relative to the first one.
double loss_left(bool scaled) {
  manual_seed(3);
  const Tensor x = uniform({32, 16}, -1, 1), target = matmul(x, uniform({16, 8}, -1, 1));
  nn::Linear first(16, 32), second(32, 8);
  eval({x, target});
  std::vector<nn::Parameter> parameters = first.parameters();
  for (const auto& parameter : second.parameters()) parameters.push_back(parameter);
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(parameters[i].defined());
  // The learning rate makes up for the small loss.
  constexpr double unit = 1e-7;
  Sgd one(group(first.parameters()), {.lr = 0.3 / unit}), two(group(second.parameters()), {.lr = 0.3 / unit});
  GradScaler scaler;
  double at_first = 0, loss = 0;
  for (int step = 0; step < 60; ++step) {
    Tensor value;
    {
      const Autocast scope(Precision::f16);
      value = mse_loss(second(relu(first(x))), target) * unit;
    }
    if (scaled) {
      scaler.scale(value).backward();
      scaler.unscale(parameters);
      scaler.step(one);
      scaler.step(two);
      scaler.update();
    } else {
      value.backward();
      one.step();
      two.step();
    }
    loss = value.item();
    if (step == 0) at_first = loss;
  }
  return loss / at_first;
}

TEST(GradScaler, LearnsWhereGradientsWouldVanish) {
  EXPECT_GT(loss_left(false), 0.9) << "gradients do not vanish: the test shows nothing";
  EXPECT_LT(loss_left(true), 0.3);
}

}  // namespace
}  // namespace athanor::optim
