// A user-defined op: declared in one place, checked against its reference and finite differences, and used in
// training.
#include <cmath>
#include <cstdio>
#include <random>

#include "athanor/nn/nn.h"
#include "athanor/ops/define.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"

using namespace athanor;

// ---- The op: its whole declaration ----

// With this declaration the op is known by name, runs on every backend, is fused with its neighbours and has
// gradients.
ATHANOR_OPS(snake) {
  define_composite(
      {.name = "snake",
       .doc = "x + sin(frequency x)^2 / frequency: learns periodic functions. Ziyin et al. (2020)",
       .decompose =
           [](const Tensor& x, const Attrs& attrs) {
             const double frequency = attrs.number("frequency");
             return x + square(sin(frequency * x)) / frequency;
           },
       .value =
           [](double x, const Attrs& attrs) {
             const double frequency = attrs.number("frequency");
             return x + std::pow(std::sin(frequency * x), 2) / frequency;
           },
       .attrs = {{{"frequency", 1.0}}, {{"frequency", 3.5}}}});
}

Tensor snake(Operand x, double frequency = 1) { return call("snake", {x}, {{"frequency", frequency}}); }

// ---- Its check, with the cases that came with the declaration ----

double reference_sum(const Op& op, const RefArray& x, const Attrs& attrs) {
  double sum = 0;
  for (const double y : op.reference({{x}}, attrs).data) sum += y;
  return sum;
}

double worst_error(const Op& op) {
  std::mt19937 random(1);
  double worst = 0;
  for (const OpCase& one : op.cases) {
    const Sample& sample = one.inputs[0];
    RefArray x(sample.shape);
    for (double& value : x.data) value = std::uniform_real_distribution(sample.low, sample.high)(random);
    Tensor input = Tensor::from<double>(x.data, sample.shape);
    input.requires_grad();
    const Tensor output = apply(op, {input}, one.attrs);
    sum(output).backward();
    const auto values = output.to_vector<double>(), gradient = input.grad().to_vector<double>();
    const RefArray expected = op.reference({{x}}, one.attrs);
    constexpr double step = 1e-5;
    for (size_t i = 0; i < values.size(); ++i) {
      RefArray up = x, down = x;
      up.data[i] += step, down.data[i] -= step;
      const double slope =
          (reference_sum(op, up, one.attrs) - reference_sum(op, down, one.attrs)) / (2 * step);
      worst = std::max({worst, std::abs(values[i] - expected.data[i]), std::abs(gradient[i] - slope)});
    }
  }
  return worst;
}

// ---- Its use: a function that ReLU networks cannot continue ----

class Wave : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return out(snake(hidden(x), 4)); }

 private:
  nn::Linear& hidden = add("hidden", nn::Linear(1, 32));
  nn::Linear& out = add("out", nn::Linear(32, 1));
};

int main() {
  const double error = worst_error(find_op("snake"));
  std::printf("largest error of values and gradients: %.1e\n", error);
  if (!(error < 1e-6)) return 1;

  manual_seed(1);
  Wave model;
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  double loss = 0;
  for (int step = 0; step < 600; ++step) {
    const Tensor x = uniform({128, 1}, -2, 2);
    const Tensor error_now = mse_loss(model(x), sin(5 * x));
    error_now.backward();
    optimizer.step();
    loss = error_now.item();
    if (step % 100 == 0) std::printf("step %3d  loss %.5f\n", step, loss);
  }
  std::printf("final loss %.5f\n", loss);
  return loss < 0.05 ? 0 : 1;
}
