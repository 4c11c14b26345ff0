#include "athanor/nn/gpt2.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/nn/attention.h"
#include "athanor/nn/function.h"
#include "athanor/nn/init.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/lora.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/sequential.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"

namespace athanor::nn {
namespace {

constexpr double deviation = 0.02;

// A linear layer whose weight is stored transposed, [inputs, outputs], as the published files have it.
class Conv1D : public LoraLayer {
 public:
  Conv1D(int64_t inputs, int64_t outputs, double stddev)
      : weight_(add_parameter("weight", init::normal({inputs, outputs}, 0, stddev))),
        bias_(add_parameter("bias", init::zeros({outputs}))) {}
  Tensor forward(const Tensor& x) override {
    return with_adapter(linear(x, transpose(weight_, 0, 1), bias_), x);
  }
  std::string describe() const override {
    return fmt::format("Conv1D({} -> {})", weight_.shape()[0], weight_.shape()[1]);
  }

 protected:
  const Parameter& adapted_weight() const override { return weight_; }
  bool transposed() const override { return true; }

 private:
  Parameter weight_, bias_;
};

class CausalAttention : public Module {
 public:
  CausalAttention(const Gpt2Options& options, double last_stddev)
      : heads_(options.heads),
        c_attn_(add("c_attn", Conv1D(options.dimensions, 3 * options.dimensions, deviation))),
        c_proj_(add("c_proj", Conv1D(options.dimensions, options.dimensions, last_stddev))) {}
  Tensor forward(const Tensor& x) override {
    const std::vector<Tensor> qkv = chunk(c_attn_(x), 3, 2);
    return c_proj_(attend(qkv[0], qkv[1], qkv[2], heads_, true));
  }
  std::string describe() const override { return fmt::format("CausalAttention({} heads)", heads_); }

 private:
  int64_t heads_;
  Module &c_attn_, &c_proj_;
};

class FeedForward : public Module {
 public:
  FeedForward(const Gpt2Options& options, double last_stddev)
      : c_fc_(add("c_fc", Conv1D(options.dimensions, 4 * options.dimensions, deviation))),
        c_proj_(add("c_proj", Conv1D(4 * options.dimensions, options.dimensions, last_stddev))) {}
  Tensor forward(const Tensor& x) override { return c_proj_(gelu_tanh(c_fc_(x))); }
  std::string describe() const override { return "FeedForward"; }

 private:
  Module &c_fc_, &c_proj_;
};

class Block : public Module {
 public:
  Block(const Gpt2Options& options, double last_stddev)
      : ln_1_(add("ln_1", LayerNorm(options.dimensions))),
        attn_(add("attn", CausalAttention(options, last_stddev))),
        ln_2_(add("ln_2", LayerNorm(options.dimensions))),
        mlp_(add("mlp", FeedForward(options, last_stddev))),
        dropout_(add("dropout", Dropout(options.dropout))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + dropout_(attn_(ln_1_(x)));
    return y + dropout_(mlp_(ln_2_(y)));
  }
  std::string describe() const override { return "Block"; }

 private:
  Module &ln_1_, &attn_, &ln_2_, &mlp_, &dropout_;
};

Embedding table(int64_t entries, int64_t dimensions) {
  Embedding embedding(entries, dimensions);
  embedding.weight.assign(init::normal({entries, dimensions}, 0, deviation));
  return embedding;
}

const Gpt2Options& checked(const Gpt2Options& o) {
  if (std::min({o.vocabulary, o.positions, o.layers, o.dimensions, o.heads}) < 1 ||
      o.dimensions % o.heads != 0)
    throw Error(ErrorCode::value,
                fmt::format("GPT-2 of {} layers, {} dimensions, {} heads, {} positions and {} tokens",
                            o.layers, o.dimensions, o.heads, o.positions, o.vocabulary),
                {}, "Each is at least 1, and the heads divide the dimensions");
  return o;
}

}  // namespace

Gpt2::Gpt2(const Gpt2Options& options)
    : options_(checked(options)),
      tokens_(add("wte", table(options.vocabulary, options.dimensions))),
      positions_(add("wpe", table(options.positions, options.dimensions))) {
  embedding_ = static_cast<Embedding&>(tokens_).weight;
  Sequential layers;
  const double last_stddev = deviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  for (int64_t i = 0; i < options.layers; ++i) layers.append(Block(options, last_stddev));
  Module& h = add("h", std::move(layers));
  for (const auto& [name, block] : h.children()) blocks_.push_back(block.get());
  norm_ = &add("ln_f", LayerNorm(options.dimensions));
}

Tensor Gpt2::forward(const Tensor& tokens) {
  if (tokens.rank() != 2 || tokens.size(1) > options_.positions)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(tokens.type())), {},
                fmt::format("It takes [N, T] with at most {} tokens", options_.positions));
  Tensor x = tokens_(tokens) + positions_(arange(tokens.size(1), DType::i64, tokens.device()));
  for (Module* block : blocks_) x = (*block)(x);
  return linear((*norm_)(x), embedding_);
}

std::string Gpt2::describe() const {
  return fmt::format("Gpt2({} layers of {}, {} heads)", options_.layers, options_.dimensions, options_.heads);
}

}  // namespace athanor::nn
