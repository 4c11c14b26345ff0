// BERT: a transformer that sees a text in both directions.
//
// Devlin, Chang, Lee, Toutanova: BERT: Pre-training of Deep Bidirectional Transformers for Language
// Understanding (2019).
#pragma once
#include <vector>

#include "athanor/nn/module.h"

namespace athanor::nn {

struct BertOptions {
  int64_t vocabulary = 30522, positions = 512, layers = 12, dimensions = 768, heads = 12;
  double dropout = 0;  // after the embedding and each branch
  bool pooler = true;
};

/// Tokens [N, T] (i64, in [0, vocabulary)) -> a vector for each token in its context, [N, T, D]. All tokens
/// are of the first of the two kinds of sentences.
///
/// Parameters have the names and layouts of Hugging Face's BertModel: embeddings.word_embeddings.weight [V,
/// D], encoder.layer.0.attention.self.query, ..., pooler.dense. The default options are BERT base, with
/// 109,482,240 parameters including the pooler. Initial weights are normal with a standard deviation of 0.02.
class Bert : public Module {
 public:
  /// Throws Error(value) when heads does not divide dimensions, or an extent is below 1.
  explicit Bert(const BertOptions& options = {});
  /// Throws Error(shape) for more tokens than positions.
  Tensor forward(const Tensor& tokens) override;
  /// tanh of a dense layer of the first token: [N, T, D] -> [N, D]. It represents a text as a whole.
  Tensor pooled(const Tensor& hidden);
  std::string describe() const override;

  Parameter words;  // [V, D]

 private:
  BertOptions options_;
  Module& embeddings_;
  std::vector<Module*> layers_;
  Module* pooler_ = nullptr;
};

/// Tokens [N, T] -> logits of the token at each position [N, T, V]: bert (without the pooler), then
/// cls.predictions.transform and the table of words again. It is Hugging Face's BertForMaskedLM.
class BertForMaskedLM : public Module {
 public:
  explicit BertForMaskedLM(const BertOptions& options = {});
  Tensor forward(const Tensor& tokens) override;
  std::string describe() const override;

 private:
  Bert& bert_;
  Module& head_;
};

}  // namespace athanor::nn
