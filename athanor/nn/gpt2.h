// GPT-2: a transformer that predicts the next token.
//
// Radford, Wu, Child, Luan, Amodei, Sutskever: Language Models are Unsupervised Multitask Learners (2019).
#pragma once
#include <vector>

#include "athanor/nn/module.h"

namespace athanor::nn {

struct Gpt2Options {
  int64_t vocabulary = 50257, positions = 1024, layers = 12, dimensions = 768, heads = 12;
  double dropout = 0;  // after each branch
};

/// Tokens [N, T] (i64, in [0, vocabulary)) -> logits of the next token at each position [N, T, vocabulary].
///
/// Parameters have the names and layouts of the published files: wte.weight [V, D] (also the last layer's),
/// wpe.weight [P, D], h.0.ln_1, h.0.attn.c_attn.weight [D, 3 D], h.0.attn.c_proj, h.0.ln_2, h.0.mlp.c_fc,
/// h.0.mlp.c_proj, ln_f. The default options are the smallest published model, with 124,439,808 parameters.
/// Initial weights are normal with a standard deviation of 0.02, or of 0.02 / sqrt(2 layers) at the end of a
/// residual branch.
class Gpt2 : public Module {
 public:
  /// Throws Error(value) when heads does not divide dimensions, or an extent is below 1.
  explicit Gpt2(const Gpt2Options& options = {});
  /// Throws Error(shape) for more tokens than positions.
  Tensor forward(const Tensor& tokens) override;
  std::string describe() const override;
  const Gpt2Options& options() const { return options_; }

 private:
  Gpt2Options options_;
  Module &tokens_, &positions_;
  std::vector<Module*> blocks_;
  Module* norm_ = nullptr;
  Parameter embedding_;
};

}  // namespace athanor::nn
