// A convolutional network with a hand-written training loop: data loader, schedule, clipping, evaluation.
//   cnn_custom_loop [DATA] [STEPS]
// DATA is "fashion-mnist", "mnist" or a folder; "stripes" (the default) is made up here.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "athanor/base/error.h"
#include "athanor/data/array_dataset.h"
#include "athanor/data/dataloader.h"
#include "athanor/data/open_dataset.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"

using namespace athanor;

// conv - norm - relu - pool, twice, and a dense layer.
class SmallCnn : public nn::Module {
 public:
  SmallCnn(const Shape& input, int64_t classes)
      : conv1(add("conv1", nn::Conv2d(input[0], 16, 3, {.padding = 1, .bias = false}))),
        norm1(add("norm1", nn::BatchNorm2d(16))),
        conv2(add("conv2", nn::Conv2d(16, 32, 3, {.padding = 1, .bias = false}))),
        norm2(add("norm2", nn::BatchNorm2d(32))),
        dropout(add("dropout", nn::Dropout(0.1))),
        fc(add("fc", nn::Linear(32 * (input[1] / 4) * (input[2] / 4), classes))) {}

  Tensor forward(const Tensor& x) override {
    const Tensor y = max_pool2d(relu(norm1(conv1(x))), 2);
    const Tensor z = max_pool2d(relu(norm2(conv2(y))), 2);
    return fc(dropout(flatten(z, 1)));
  }

 private:
  nn::Conv2d& conv1;
  nn::BatchNorm2d& norm1;
  nn::Conv2d& conv2;
  nn::BatchNorm2d& norm2;
  nn::Dropout& dropout;
  nn::Linear& fc;
};

// Noisy images of horizontal, vertical and diagonal stripes.
std::shared_ptr<const Dataset> stripes(int64_t count, unsigned seed) {
  HostArray images(DType::u8, {count, 16, 16}), labels(DType::i64, {count});
  const auto pixels = images.as<uint8_t>();
  unsigned state = seed;
  const auto random = [&](unsigned below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
  for (int64_t i = 0; i < count; ++i) {
    const unsigned label = random(3), phase = random(4);
    labels.as<int64_t>()[static_cast<size_t>(i)] = label;
    for (unsigned y = 0; y < 16; ++y)
      for (unsigned x = 0; x < 16; ++x) {
        const unsigned along = label == 0 ? y : label == 1 ? x : x + y;
        const unsigned bright = (along + phase) % 4 < 2 ? 120 : 0;
        pixels[static_cast<size_t>(i * 256 + y * 16 + x)] = static_cast<uint8_t>(bright + random(100));
      }
  }
  return std::make_shared<ArrayDataset>(std::move(images), labels);
}

double accuracy_of(nn::Module& model, const std::shared_ptr<const Dataset>& data) {
  const NoGrad off;
  model.eval();
  DataLoader loader(data, {.batch_size = 256});
  double right = 0;
  while (const auto batch = loader.next()) {
    const Tensor predicted = argmax(model(Tensor::from(batch->inputs)));
    right += sum(equal(predicted, Tensor::from(batch->labels))).item();
  }
  model.train();
  return right / static_cast<double>(data->size());
}

int run(const std::string& name, int64_t steps) {
  const bool made_up = name == "stripes";
  const auto train = made_up ? stripes(2000, 1) : open_dataset(name, Split::train);
  const auto test = made_up ? stripes(500, 2) : open_dataset(name, Split::test, {.like = train->spec()});

  manual_seed(1);
  SmallCnn model(train->spec().input, train->spec().classes);
  optim::AdamW optimizer(model.parameters(), {.weight_decay = 0.01});
  const int64_t warm = steps / 10;
  const auto rate = optim::warm_up(warm, optim::cosine(0.003, steps - warm));

  DataLoader loader(train, {.batch_size = 64, .shuffle = true, .drop_last = true, .workers = 2});
  for (int64_t step = 0; step < steps;) {
    const auto batch = loader.next();
    if (!batch) continue;  // the end of an epoch; the next call begins another
    const Tensor loss = cross_entropy(model(Tensor::from(batch->inputs)), Tensor::from(batch->labels));
    loss.backward();
    const Tensor norm = optim::clip_grad_norm(model.parameters(), 5);
    optimizer.set_lr(rate(step));
    optimizer.step();
    const double value = loss.item();
    if (step++ % (steps / 10 + 1) == 0)
      std::printf("step %4lld  loss %.4f  gradient norm %.3f\n", static_cast<long long>(step), value,
                  norm.item());
  }
  const double accuracy = accuracy_of(model, test);
  std::printf("test accuracy %.1f %%\n", 100 * accuracy);
  return accuracy > 0.8 ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "stripes", argc > 2 ? std::atoll(argv[2]) : 200);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
