// A multilayer perceptron in 40 lines. It learns which of four fields of a pattern contains a point.
//   mlp_40_lines [STEPS]
#include <cstdio>
#include <cstdlib>

#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"

using namespace athanor;

// The sign of the product of the coordinates, and whether the point lies in a ring.
Tensor field_of(const Tensor& points) {
  const Tensor x = slice(points, {Slice(), 0}), y = slice(points, {Slice(), 1});
  const Tensor crossed = x * y > 0, far = x * x + y * y > 0.5;
  return cast(crossed, DType::i64) + 2 * cast(far, DType::i64);
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1000;
  manual_seed(1);
  nn::Sequential model(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 4));
  optim::Adam optimizer(model.parameters());
  const auto rate = optim::one_cycle(0.01, steps);
  std::printf("%s\n", nn::to_string(model).c_str());

  for (int step = 0; step < steps; ++step) {
    const Tensor points = uniform({256, 2}, -1, 1);
    const Tensor loss = cross_entropy(model(points), field_of(points));
    loss.backward();
    optimizer.set_lr(rate(step));
    optimizer.step();
    const double value = loss.item();  // forward, backward and update run here, as one plan
    if (step % (steps / 10 + 1) == 0) std::printf("step %4d  loss %.4f\n", step, value);
  }

  const Tensor points = uniform({4096, 2}, -1, 1);
  const double accuracy = mean(equal(argmax(model(points)), field_of(points))).item();
  std::printf("accuracy %.1f %%\n", 100 * accuracy);
  return accuracy > 0.9 ? 0 : 1;
}
