// Random small networks: images, rows of features or tokens, with labels, and how they are trained.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"

namespace athanor::testing {

class RandomNet : public nn::Module {
 public:
  explicit RandomNet(uint64_t seed) : random_(seed) {
    switch (between(0, 2)) {
      case 0:
        images();
        break;
      case 1:
        rows();
        break;
      default:
        tokens();
    }
  }

  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const Layer& layer : layers_) {
      const auto compute = [&](const Tensor& in) {
        const Tensor out = layer.compute(in);
        return noisy(layer.residual ? out + in : out);
      };
      y = recomputes && layer.again ? nn::checkpoint(compute, y) : compute(y);
    }
    return y;
  }
  /// A batch of inputs and labels.
  std::pair<Tensor, Tensor> batch(unsigned seed, Device device) const {
    std::mt19937_64 draw(seed);
    std::vector<float> numbers(static_cast<size_t>(input_.size()));
    std::vector<int64_t> labels(static_cast<size_t>(labels_.size()));
    for (int64_t& l : labels) l = static_cast<int64_t>(draw() % classes);
    if (tokens_) {
      std::vector<int64_t> at(numbers.size());
      for (int64_t& t : at) t = static_cast<int64_t>(draw() % vocabulary);
      return {Tensor::from(at, input_, device), Tensor::from(labels, labels_, device)};
    }
    for (float& x : numbers) x = static_cast<float>(1.5 * unit(draw));
    return {Tensor::from(numbers, input_, device), Tensor::from(labels, labels_, device)};
  }
  std::string describe() const override { return text_; }
  double noise = 0;         // how far each layer's results are from their numbers, relatively
  unsigned noise_draw = 1;  // of such numbers
  bool recomputes = false;  // whether some layers' values are computed again for gradients

 private:
  static constexpr int64_t classes = 5, vocabulary = 11;
  using Compute = std::function<Tensor(const Tensor&)>;
  struct Layer {
    Compute compute;
    bool residual, again;
  };

  static double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; }
  Tensor noisy(const Tensor& x) {
    if (noise == 0) return x;
    std::mt19937_64 random(noise_draw++);
    std::vector<float> factors(static_cast<size_t>(x.size()));
    for (float& f : factors) f = static_cast<float>(1 + noise * unit(random));
    return x * Tensor::from(factors, x.shape(), x.device());
  }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }

  void push(const std::string& text, Compute compute, bool residual = false) {
    layers_.push_back({std::move(compute), residual, chance(0.3)});
    text_ += fmt::format(" {}{}{}", text, residual ? "+" : "", layers_.back().again ? "*" : "");
  }
  template <class M>
  void append(const std::string& text, M module, bool residual = false) {
    nn::Module& made = add(std::to_string(children().size()), std::move(module));
    push(
        text, [&made](const Tensor& x) { return made(x); }, residual);
  }
  void activation() {
    switch (between(0, 4)) {
      case 0:
        return push("relu", [](const Tensor& x) { return relu(x); });
      case 1:
        return push("gelu", [](const Tensor& x) { return gelu(x); });
      case 2:
        return push("silu", [](const Tensor& x) { return silu(x); });
      case 3:
        return push("tanh", [](const Tensor& x) { return tanh(x); });
      default:
        return append("dropout", nn::Dropout(0.3));
    }
  }
  void images() {
    int64_t c = between(1, 4);
    input_ = {between(2, 5), c, between(5, 9), between(5, 9)}, labels_ = {input_[0]};
    for (int64_t n = between(1, 3); n > 0; --n) {
      const int64_t groups = c % 2 == 0 && chance(0.3) ? 2
                             : chance(0.15)            ? c
                                                       : 1,
                    made = groups * between(1, 8), k = chance(0.3) ? 1 : 3;
      append(fmt::format("conv {}->{} {}x{} groups {}", c, made, k, k, groups),
             nn::Conv2d(
                 c, made, k,
                 {.stride = chance(0.2) ? 2 : 1, .padding = k / 2, .groups = groups, .bias = chance(0.6)}));
      c = made;
      if (chance(0.6))
        append("bn", nn::BatchNorm2d(c, {.momentum = chance(0.7) ? std::optional<double>(0.1) : std::nullopt,
                                         .affine = chance(0.8)}));
      if (chance(0.2)) append("gn", nn::GroupNorm(c % 2 == 0 ? 2 : 1, c));
      activation();
      if (chance(0.3)) append("same conv", nn::Conv2d(c, c, 3, {.padding = 1, .bias = false}), true);
    }
    if (chance(0.5))
      push("mean", [](const Tensor& x) { return mean(x, {2, 3}); });
    else
      push("pool", [](const Tensor& x) { return flatten(adaptive_avg_pool2d(x, 2), 1); }), c *= 4;
    append("linear", nn::Linear(c, classes));
  }
  void rows() {
    int64_t f = between(1, 20);
    // Of two rows a batch norm leaves only signs: its gradient is what rounding leaves of terms that cancel.
    input_ = {between(4, 9), f}, labels_ = {input_[0]};
    for (int64_t n = between(1, 4); n > 0; --n) {
      const int64_t made = chance(0.4) ? f : between(2, 33);
      append(fmt::format("linear {}->{}", f, made), nn::Linear(f, made, chance(0.7)),
             made == f && chance(0.5));
      f = made;
      const int64_t norm = between(0, 4);
      if (norm == 0) append("ln", nn::LayerNorm(f));
      if (norm == 1) append("bn", nn::BatchNorm1d(f));
      if (norm == 2) append("rms", nn::RMSNorm(f));
      activation();
      if (chance(0.25)) append("swiglu", nn::SwiGLU(f, between(2, 16)), true);
    }
    append("linear", nn::Linear(f, classes));
  }
  void tokens() {
    tokens_ = true;
    const int64_t d = between(1, 4) * 4, n = between(1, 3), t = between(1, 9);
    input_ = {n, t}, labels_ = {n, t};
    auto& embedding = static_cast<nn::Embedding&>(add("embedding", nn::Embedding(vocabulary, d)));
    push(fmt::format("embedding {}", d), [&embedding](const Tensor& x) { return embedding(x); });
    for (int64_t blocks = between(1, 2); blocks > 0; --blocks) {
      if (chance(0.4)) append("ln", nn::LayerNorm(d));
      switch (between(0, 3)) {
        case 0:
          append("lstm", nn::LSTM(d, d, {.bidirectional = false, .dropout = 0}), chance(0.5));
          break;
        case 1:
          append("gru", nn::GRU(d, d));
          break;
        default:
          append("attention",
                 nn::MultiheadAttention(d, chance(0.5) ? 2 : 1,
                                        {.bias = chance(0.5), .causal = chance(0.5), .rotary = chance(0.4)}),
                 true);
      }
      if (chance(0.5)) append("rms", nn::RMSNorm(d));
      if (chance(0.5))
        append("swiglu", nn::SwiGLU(d, between(2, 16)), true);
      else
        activation();
    }
    const bool tied = chance(0.5);
    if (tied) {
      push("tied", [&embedding](const Tensor& x) { return linear(x, embedding.weight); });
    } else {
      append("linear", nn::Linear(d, classes));
    }
    push("classes second", [](const Tensor& x) { return permute(x, {0, 2, 1}); });
  }

  std::mt19937_64 random_;
  std::vector<Layer> layers_;
  Shape input_, labels_;
  bool tokens_ = false;
  std::string text_;
};

}  // namespace athanor::testing
