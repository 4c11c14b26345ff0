#include "athanor/nn/bert.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/nn/attention.h"
#include "athanor/nn/function.h"
#include "athanor/nn/init.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/sequential.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"

namespace athanor::nn {
namespace {

constexpr double bert_deviation = 0.02, bert_eps = 1e-12;
constexpr int64_t bert_sentences = 2;

Linear bert_dense(int64_t inputs, int64_t outputs) {
  Linear layer(inputs, outputs);
  layer.weight.assign(init::normal({outputs, inputs}, 0, bert_deviation));
  layer.bias.assign(init::zeros({outputs}));
  return layer;
}

Embedding bert_table(int64_t entries, int64_t dimensions) {
  Embedding embedding(entries, dimensions);
  embedding.weight.assign(init::normal({entries, dimensions}, 0, bert_deviation));
  return embedding;
}

class BertEmbeddings : public Module {
 public:
  explicit BertEmbeddings(const BertOptions& o)
      : words_(add("word_embeddings", bert_table(o.vocabulary, o.dimensions))),
        positions_(add("position_embeddings", bert_table(o.positions, o.dimensions))),
        sentences_(add("token_type_embeddings", bert_table(bert_sentences, o.dimensions))),
        norm_(add("LayerNorm", LayerNorm(Shape{o.dimensions}, bert_eps))),
        dropout_(add("dropout", Dropout(o.dropout))) {}
  Tensor forward(const Tensor& tokens) override {
    const Tensor places = positions_(arange(tokens.size(1), DType::i64, tokens.device()));
    return dropout_(norm_(words_(tokens) + places + slice(sentences_.weight, {0})));
  }
  std::string describe() const override { return "BertEmbeddings"; }
  const Parameter& words() const { return words_.weight; }

 private:
  Embedding &words_, &positions_, &sentences_;
  Module &norm_, &dropout_;
};

class BertSelfAttention : public Module {
 public:
  explicit BertSelfAttention(const BertOptions& o)
      : heads_(o.heads),
        query_(add("query", bert_dense(o.dimensions, o.dimensions))),
        key_(add("key", bert_dense(o.dimensions, o.dimensions))),
        value_(add("value", bert_dense(o.dimensions, o.dimensions))) {}
  Tensor forward(const Tensor& x) override { return attend(query_(x), key_(x), value_(x), heads_, false); }
  std::string describe() const override { return fmt::format("BertSelfAttention({} heads)", heads_); }

 private:
  int64_t heads_;
  Module &query_, &key_, &value_;
};

/// A branch's last layer. joined() adds its result to the branch's input and normalises the sum.
class BertOutput : public Module {
 public:
  BertOutput(int64_t inputs, const BertOptions& o)
      : dense_(add("dense", bert_dense(inputs, o.dimensions))),
        norm_(add("LayerNorm", LayerNorm(Shape{o.dimensions}, bert_eps))),
        dropout_(add("dropout", Dropout(o.dropout))) {}
  Tensor forward(const Tensor& x) override { return dropout_(dense_(x)); }
  Tensor joined(const Tensor& branch, const Tensor& x) { return norm_((*this)(branch) + x); }
  std::string describe() const override { return "BertOutput"; }

 private:
  Module &dense_, &norm_, &dropout_;
};

class BertAttention : public Module {
 public:
  explicit BertAttention(const BertOptions& o)
      : self_(add("self", BertSelfAttention(o))), output_(add("output", BertOutput(o.dimensions, o))) {}
  Tensor forward(const Tensor& x) override { return output_.joined(self_(x), x); }
  std::string describe() const override { return "BertAttention"; }

 private:
  Module& self_;
  BertOutput& output_;
};

class BertIntermediate : public Module {
 public:
  explicit BertIntermediate(const BertOptions& o)
      : dense_(add("dense", bert_dense(o.dimensions, 4 * o.dimensions))) {}
  Tensor forward(const Tensor& x) override { return gelu(dense_(x)); }
  std::string describe() const override { return "BertIntermediate"; }

 private:
  Module& dense_;
};

class BertLayer : public Module {
 public:
  explicit BertLayer(const BertOptions& o)
      : attention_(add("attention", BertAttention(o))),
        intermediate_(add("intermediate", BertIntermediate(o))),
        output_(add("output", BertOutput(4 * o.dimensions, o))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = attention_(x);
    return output_.joined(intermediate_(y), y);
  }
  std::string describe() const override { return "BertLayer"; }

 private:
  Module &attention_, &intermediate_;
  BertOutput& output_;
};

Sequential dense_only(int64_t dimensions) {
  Sequential part;
  part.append("dense", bert_dense(dimensions, dimensions));
  return part;
}

/// cls.predictions: it has its own bias and shares the model's table of words.
class BertPredictions : public Module {
 public:
  explicit BertPredictions(const BertOptions& o, Parameter words)
      : words_(std::move(words)), bias_(add_parameter("bias", init::zeros({o.vocabulary}))) {
    Sequential transform = dense_only(o.dimensions);
    transform.append("gelu", GELU());
    transform.append("LayerNorm", LayerNorm(Shape{o.dimensions}, bert_eps));
    transform_ = &add("transform", std::move(transform));
  }
  Tensor forward(const Tensor& x) override { return linear((*transform_)(x), words_, bias_); }
  std::string describe() const override { return "BertPredictions"; }

 private:
  Parameter words_, bias_;
  Module* transform_;
};

const BertOptions& checked_bert(const BertOptions& o) {
  if (std::min({o.vocabulary, o.positions, o.layers, o.dimensions, o.heads}) < 1 ||
      o.dimensions % o.heads != 0)
    throw Error(ErrorCode::value,
                fmt::format("BERT of {} layers, {} dimensions, {} heads, {} positions and {} tokens",
                            o.layers, o.dimensions, o.heads, o.positions, o.vocabulary),
                {}, "Each is at least 1, and the heads divide the dimensions");
  return o;
}

BertOptions without_pooler(BertOptions options) {
  options.pooler = false;
  return options;
}

}  // namespace

Bert::Bert(const BertOptions& options)
    : options_(checked_bert(options)), embeddings_(add("embeddings", BertEmbeddings(options))) {
  words = static_cast<BertEmbeddings&>(embeddings_).words();
  Sequential layers, encoder;
  for (int64_t i = 0; i < options.layers; ++i) layers.append(BertLayer(options));
  const Module& layer = encoder.append("layer", std::move(layers));
  for (const auto& [name, one] : layer.children()) layers_.push_back(one.get());
  add("encoder", std::move(encoder));
  if (options.pooler) pooler_ = &add("pooler", dense_only(options.dimensions));
}

Tensor Bert::forward(const Tensor& tokens) {
  if (tokens.rank() != 2 || tokens.size(1) > options_.positions)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(tokens.type())), {},
                fmt::format("It takes [N, T] with at most {} tokens", options_.positions));
  Tensor x = embeddings_(tokens);
  for (Module* layer : layers_) x = (*layer)(x);
  return x;
}

Tensor Bert::pooled(const Tensor& hidden) {
  if (pooler_ == nullptr) throw Error(ErrorCode::usage, "this BERT was made without a pooler");
  return tanh((*pooler_)(slice(hidden, {Slice(), 0})));
}

std::string Bert::describe() const {
  return fmt::format("Bert({} layers of {}, {} heads)", options_.layers, options_.dimensions, options_.heads);
}

BertForMaskedLM::BertForMaskedLM(const BertOptions& options)
    : bert_(add("bert", Bert(without_pooler(options)))), head_([&]() -> Module& {
        Sequential cls;
        cls.append("predictions", BertPredictions(options, bert_.words));
        return add("cls", std::move(cls));
      }()) {}

Tensor BertForMaskedLM::forward(const Tensor& tokens) { return head_(bert_(tokens)); }

std::string BertForMaskedLM::describe() const { return "BertForMaskedLM"; }

}  // namespace athanor::nn
