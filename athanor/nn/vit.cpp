#include "athanor/nn/vit.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/nn/attention.h"
#include "athanor/nn/function.h"
#include "athanor/nn/init.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/sequential.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"

namespace athanor::nn {
namespace {

constexpr double vit_eps = 1e-6;

Linear vit_dense(int64_t inputs, int64_t outputs) {
  Linear layer(inputs, outputs);
  layer.weight.assign(init::xavier_uniform({outputs, inputs}));
  layer.bias.assign(init::zeros({outputs}));
  return layer;
}

/// torchvision's MLPBlock without its dropouts, which have no parameters.
Sequential vit_mlp(int64_t dimensions) {
  Sequential mlp;
  mlp.append("0", vit_dense(dimensions, 4 * dimensions));
  mlp.append("1", GELU());
  mlp.append("3", vit_dense(4 * dimensions, dimensions));
  return mlp;
}

class ViTBlock : public Module {
 public:
  explicit ViTBlock(const ViTOptions& o)
      : ln_1_(add("ln_1", LayerNorm(Shape{o.dimensions}, vit_eps))),
        attention_(add("self_attention", MultiheadAttention(o.dimensions, o.heads))),
        ln_2_(add("ln_2", LayerNorm(Shape{o.dimensions}, vit_eps))),
        mlp_(add("mlp", vit_mlp(o.dimensions))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + attention_(ln_1_(x));
    return y + mlp_(ln_2_(y));
  }
  std::string describe() const override { return "ViTBlock"; }

 private:
  Module &ln_1_, &attention_, &ln_2_, &mlp_;
};

class ViTEncoder : public Module {
 public:
  ViTEncoder(int64_t tokens, const ViTOptions& o)
      : places(add_parameter("pos_embedding", init::normal({1, tokens, o.dimensions}, 0, 0.02))) {
    Sequential blocks;
    for (int64_t i = 0; i < o.layers; ++i) blocks.append(fmt::format("encoder_layer_{}", i), ViTBlock(o));
    layers_ = &add("layers", std::move(blocks));
    norm_ = &add("ln", LayerNorm(Shape{o.dimensions}, vit_eps));
  }
  Tensor forward(const Tensor& x) override { return (*norm_)((*layers_)(x + places)); }
  std::string describe() const override { return "ViTEncoder"; }

  Parameter places;

 private:
  Module *layers_, *norm_;
};

const Shape& checked_vit(const Shape& input, const ViTOptions& o) {
  if (input.rank() != 3 || input[1] < o.patch || input[2] < o.patch)
    throw Error(ErrorCode::shape, fmt::format("a ViT takes no inputs of shape {}", to_string(input)), {},
                fmt::format("It takes images [C, H, W] of at least {0} x {0} pixels", o.patch));
  return input;
}

}  // namespace

ViT::ViT(const Shape& input, int64_t classes, const ViTOptions& options)
    : options_(options),
      input_(checked_vit(input, options)),
      class_token_(add_parameter("class_token", init::zeros({1, 1, options.dimensions}))),
      patches_(add("conv_proj",
                   Conv2d(input[0], options.dimensions, Pair(options.patch), {.stride = options.patch}))) {
  const double inputs = static_cast<double>(input[0] * options.patch * options.patch);
  patches_.weight.assign(init::trunc_normal(patches_.weight.shape(), 0, 1 / std::sqrt(inputs)));
  patches_.bias.assign(init::zeros({options.dimensions}));
  const int64_t count = (input[1] / options.patch) * (input[2] / options.patch);
  encoder_ = &add("encoder", ViTEncoder(1 + count, options));
  Linear head(options.dimensions, classes);
  head.weight.assign(init::zeros(head.weight.shape()));
  head.bias.assign(init::zeros({classes}));
  Sequential heads;
  heads.append("head", std::move(head));
  head_ = &add("heads", std::move(heads));
}

Tensor ViT::forward(const Tensor& x) {
  if (x.rank() != 4 || x.shape().erase(0) != input_)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(x.type())), {},
                fmt::format("It takes [N, {}, {}, {}]", input_[0], input_[1], input_[2]));
  const Tensor patches = transpose(flatten(patches_(x), 2), 1, 2);
  const Tensor first = cast(broadcast_to(class_token_, {x.size(0), 1, options_.dimensions}), patches.dtype());
  const Tensor seen = (*encoder_)(concat({first, patches}, 1));
  return (*head_)(slice(seen, {Slice(), 0}));
}

std::string ViT::describe() const {
  return fmt::format("ViT({} layers of {}, {} heads, patches of {} x {})", options_.layers,
                     options_.dimensions, options_.heads, options_.patch, options_.patch);
}

}  // namespace athanor::nn
