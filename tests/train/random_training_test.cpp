// Random networks, trained for three steps in random ways: whatever the compiler makes of them, they become
// the same to rounding. A run that is resumed has the same bits, and so has one whose optimizer's state lies
// on the host.
// ATHANOR_TEST_SEEDS works as in tests/compile/random_graphs_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "athanor/compile/options.h"
#include "athanor/graph/precision.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/weight_average.h"
#include "tests/compile/random_checks.h"
#include "tests/compile/random_seeds.h"
#include "tests/support/gpu_devices.h"
#include "tests/train/random_net.h"

namespace athanor {
namespace {

using testing::RandomNet, testing::Results, testing::all_passes;

/// How a network is trained.
struct Recipe {
  std::string optimizer;
  optim::OptimizerOptions options;
  int parts = 1;               // micro-batches of a step
  bool apart = false;          // whether their gradients are evaluated one by one
  double most = 0, limit = 0;  // the gradients' norm, or the size of their elements; 0: any
  bool scales = false;         // the loss, with a scaler
  double average = 0;          // the decay of an average of the weights; 0: none
  bool rests = false;          // whether the first parameter has a gradient in every second step only
  Precision precision = Precision::f32;

  explicit Recipe(unsigned seed) {
    std::mt19937_64 random(seed * 31 + 7);
    const auto chance = [&](double p) { return static_cast<double>(random() >> 11) * 0x1p-53 < p; };
    const std::vector<std::string>& names = optim::optimizer_names();
    optimizer = names[random() % names.size()];
    options = {.lr = 0.05, .momentum = chance(0.7) ? 0.9 : 0.0, .eps = 0.05};
    if (chance(0.5)) options.weight_decay = 0.1;
    options.nesterov = options.momentum > 0 && chance(0.3);
    if (chance(0.3)) parts = 2, apart = chance(0.5);
    if (chance(0.3))
      most = 0.3;
    else if (chance(0.2))
      limit = 0.02;
    scales = chance(0.3);
    if (chance(0.3)) average = 0.9;
    rests = chance(0.2);
    precision = chance(0.4) ? Precision::f32 : chance(0.5) ? Precision::bf16 : Precision::f16;
  }
  std::string describe() const {
    return fmt::format(
        "{} momentum {} nesterov {} decay {} parts {}{} most {} limit {} scales {} average {} rests {} {}",
        optimizer, options.momentum, options.nesterov, options.weight_decay.value_or(-1), parts,
        apart ? " apart" : "", most, limit, scales, average, rests, to_string(precision));
  }
};

struct Way {
  std::string without = "tune";
  Device device = {};
  double noise = 0;         // of each layer's results
  unsigned draw = 1;        // of such noise
  int resumes = 0;          // a new run goes on after so many steps
  bool offloads = false;    // the optimizer's state
  bool recomputes = false;  // some layers
  bool squeezed = false;    // whether plans get the least memory that they can do with
};

/// What a run consists of.
class Run {
 public:
  Run(unsigned seed, const Recipe& recipe, const Way& way) : seed_(seed), recipe_(recipe), way_(way) {
    manual_seed(seed);
    net_ = std::make_unique<RandomNet>(seed);
    if (way.device != Device{}) net_->to(way.device);
    net_->recomputes = way.recomputes;
    net_->noise = way.noise, net_->noise_draw = 1000 * way.draw;
    optimizer_ = optim::make_optimizer(recipe.optimizer, net_->parameters(), recipe.options);
    if (way.offloads) optimizer_->offload_state();
    if (recipe.scales)
      scaler_ = std::make_unique<optim::GradScaler>(
          way.device, optim::GradScalerOptions{.initial_scale = 1024, .growth_interval = 2});
    if (recipe.average > 0) average_ = std::make_unique<WeightAverage>(net_->parameters(), recipe.average);
  }
  void step(int number, Results& results) {
    std::vector<Tensor> wanted;
    optimizer_->set_lr(0.05 / (1 + number));
    for (int part = 0; part < recipe_.parts; ++part) {
      const auto [x, labels] =
          net_->batch(seed_ * 100 + static_cast<unsigned>(10 * number + part), way_.device);
      Tensor loss;
      {
        const Autocast scope(recipe_.precision);
        loss = cross_entropy((*net_)(x), labels) / static_cast<double>(recipe_.parts);
      }
      wanted.push_back(detach(loss));
      (scaler_ ? scaler_->scale(loss) : loss).backward();
      if (recipe_.apart && part + 1 < recipe_.parts) {
        std::vector<Tensor> sums;
        for (const nn::Parameter& p : net_->parameters())
          if (p.grad().defined()) sums.push_back(p.grad());
        evaluate(sums);
      }
    }
    const std::vector<nn::Parameter> parameters = net_->parameters();
    if (recipe_.rests && number % 2 == 1) (void)parameters.front().take_grad();
    if (scaler_) scaler_->unscale(parameters);
    if (recipe_.most > 0) wanted.push_back(optim::clip_grad_norm(parameters, recipe_.most));
    if (recipe_.limit > 0) optim::clip_grad_value(parameters, recipe_.limit);
    if (scaler_) {
      scaler_->step(*optimizer_);
      scaler_->update();
    } else {
      optimizer_->step();
    }
    if (average_) average_->update(number);
    for (const auto& [name, p] : net_->named_parameters()) wanted.push_back(p);
    for (const auto& [name, b] : net_->named_buffers()) wanted.push_back(b);
    if (average_)
      for (const nn::Variable& v : average_->variables()) wanted.push_back(v);
    evaluate(wanted);
    for (const Tensor& x : wanted) results.push_back(to_doubles(x.to_host()));
    for (const auto& [name, state] : optimizer_->state_dict()) results.push_back(to_doubles(state));
  }
  /// This run's state in another one, made from another seed.
  std::unique_ptr<Run> resumed() const {
    auto other = std::make_unique<Run>(seed_, recipe_, way_);
    const auto state = default_generator().state();
    for (const nn::Parameter& p : other->net_->parameters()) p.assign(p.value() * 3 + 1);
    other->net_->load_state_dict(net_->state_dict());
    other->optimizer_->load_state_dict(optimizer_->state_dict());
    if (scaler_) other->scaler_->load_state_dict(scaler_->state_dict());
    if (average_) other->average_->load_state_dict(average_->state_dict());
    default_generator().restore(state);
    return other;
  }
  std::string describe() const { return net_->describe(); }

 private:
  void evaluate(const std::vector<Tensor>& wanted) const {
    if (way_.squeezed)
      testing::eval_squeezed(wanted);
    else
      eval(wanted);
  }

  unsigned seed_;
  Recipe recipe_;
  Way way_;
  std::unique_ptr<RandomNet> net_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::GradScaler> scaler_;
  std::unique_ptr<WeightAverage> average_;
};

Results train(unsigned seed, const Recipe& recipe, const Way& way) {
  const ScopedDisable off(way.without);
  auto run = std::make_unique<Run>(seed, recipe, way);
  Results results;
  for (int s = 0; s < 3; ++s) {
    if (way.resumes == s && s > 0) {
      const auto drawn = default_generator().state();
      run = run->resumed();
      default_generator().restore(drawn);
    }
    run->step(s, results);
  }
  clear_plan_cache();
  return results;
}

Results attempt(unsigned seed, const Recipe& recipe, const Way& way) {
  try {
    return train(seed, recipe, way);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return {};
  }
}

void expect_same(const char* what, const Results& got, const Results& exact) {
  SCOPED_TRACE(what);
  ASSERT_EQ(got.size(), exact.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), exact[i].size());
    for (size_t k = 0; k < exact[i].size(); ++k)
      ASSERT_TRUE(got[i][k] == exact[i][k] || (std::isnan(got[i][k]) && std::isnan(exact[i][k])))
          << "result " << i << " element " << k << ": " << got[i][k] << ", not " << exact[i][k];
  }
}

/// How far noise in each layer moves a run says how exact its numbers can be. Layers round several times, and
/// both runs do.
class Rounding {
 public:
  Rounding(unsigned seed, const Recipe& recipe) : plain(attempt(seed, recipe, {.without = all_passes})) {
    for (const unsigned draw : {1, 2, 3})
      moved_.push_back(attempt(seed, recipe, {.without = all_passes, .noise = noise, .draw = draw}));
  }
  void expect_alike(const Results& got) const {
    ASSERT_EQ(got.size(), plain.size());
    const double size = std::max(0.5, testing::largest(plain)), u = 0x1p-24;
    for (size_t i = 0; i < got.size(); ++i) {
      double moves = 0;
      for (size_t k = 0; k < plain[i].size(); ++k)
        for (const Results& m : moved_) moves = std::max(moves, std::abs(plain[i][k] - m[i][k]));
      const double tolerance = 16 * u * (moves / noise + size);
      for (size_t k = 0; k < plain[i].size(); ++k)
        ASSERT_NEAR(got[i][k], plain[i][k], tolerance) << "result " << i << " element " << k;
    }
  }
  const Results plain;

 private:
  static constexpr double noise = 0x1p-19;
  std::vector<Results> moved_;
};

void check_training(testing::Seeds usual, Device device) {
  testing::for_each_seed(usual, [&](unsigned seed) {
    Recipe recipe(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + RandomNet(seed).describe() + "\n" +
                 recipe.describe());
    const Results through = attempt(seed, recipe, {.device = device});
    expect_same("resumed", attempt(seed, recipe, {.device = device, .resumes = 2}), through);
    expect_same("resumed early", attempt(seed, recipe, {.device = device, .resumes = 1}), through);
    if (device == Device{} || seed % 2 == 0)
      expect_same("offloaded", attempt(seed, recipe, {.device = device, .resumes = 2, .offloads = true}),
                  through);
    if (device == Device{})
      expect_same("recomputed", attempt(seed, recipe, {.device = device, .recomputes = true}), through);
    recipe.precision = Precision::f32;
    const Rounding rounding(seed, recipe);
    if (!(testing::largest(rounding.plain) < 1e4)) return false;
    rounding.expect_alike(attempt(seed, recipe, {.device = device}));
    rounding.expect_alike(attempt(seed, recipe, {.device = device, .recomputes = true, .squeezed = true}));
    return true;
  });
}

TEST(RandomTraining, BecomesTheSame) { check_training({0, 4}, {}); }

TEST(RandomTraining, BecomesTheSameOnAGpu) {
  if (std::getenv("ATHANOR_TEST_SEEDS") == nullptr) GTEST_SKIP() << "takes a minute on PoCL: give seeds";
  ATHANOR_NEEDS_GPU();
  check_training({60, 61}, testing::gpu_devices().front().device);
}

}  // namespace
}  // namespace athanor
