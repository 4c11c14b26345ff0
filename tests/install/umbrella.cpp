// Compiled against an installed Athanor with only the flags from pkg-config.
#include "athanor/athanor.h"

#include <cstdio>

using namespace athanor;

int main() {
  auto model = nn::make_model("mlp", Shape{1, 4, 4}, 3);
  optim::Sgd optimizer(model->parameters(), {.lr = 0.1});
  const Tensor pictures = Tensor::from(HostArray(DType::f32, {5, 1, 4, 4}));
  const Tensor labels = Tensor::from(std::vector<int64_t>{0, 1, 2, 0, 1}, {5});
  const Tensor loss = cross_entropy((*model)(pictures), labels);
  loss.backward();
  optimizer.step();
  std::printf("%.3f on %s\n", loss.item(), to_string(Device{}).c_str());
  return loss.item() > 0 ? 0 : 1;
}
