// Small tasks on sequences, graphs and positions.
#include "tests/nn/learning.h"

#include <gtest/gtest.h>

#include <cmath>

namespace athanor::nn {
namespace {

/// All sequences of five bits. Only a layer that remembers the first bit knows if it differs from the last.
template <class Layer>
class FirstAndLast : public Learner {
 public:
  Tensor loss(Device device) override {
    const auto bit = [](int64_t number, int64_t time) { return number >> time & 1; };
    const Tensor x = made<float>({32, 5, 1}, device, [&](int64_t i) { return 2 * bit(i / 5, i % 5) - 1; });
    const Tensor differ = made<int64_t>({32}, device, [&](int64_t i) { return bit(i, 0) ^ bit(i, 4); });
    return cross_entropy(head_(slice(layer_(x), {Slice(), -1})), differ);
  }

 private:
  Layer& layer_ = add("layer", Layer(1, 12));
  Linear& head_ = add("head", Linear(12, 2));
};

TEST(Learning, LstmRemembers) { learned<FirstAndLast<LSTM>>(120, 0.03, 0.05); }
TEST(Learning, GruRemembers) { learned<FirstAndLast<GRU>>(120, 0.03, 0.05); }

/// Frames of unnamed symbols, each held for one to three frames; only the order of their names is given.
class Spelling : public Learner {
 public:
  static constexpr int64_t times = 9, words = 8, classes = 5, letters = 3;
  static int64_t letter(int64_t word, int64_t place) { return 1 + (word + place * (1 + word % 3)) % 4; }
  /// The letter of the word at a time.
  static int64_t heard(int64_t word, int64_t time) {
    const int64_t first = 1 + word % 3, second = 1 + (word + 1) % 3;
    return letter(word, time < first ? 0 : time < first + second ? 1 : 2);
  }

  Tensor log_probabilities(Device device) {
    // Symbol 4 - letter means the letter.
    const Tensor frames = made<float>({times, words, 4}, device, [](int64_t i) {
      return 4 - heard(i / 4 % words, i / 4 / words) == i % 4;
    });
    return log_softmax(head_(frames));
  }
  Tensor loss(Device device) override {
    const Tensor targets =
        made<int64_t>({words, letters}, device, [](int64_t i) { return letter(i / letters, i % letters); });
    const auto all = [&](int64_t n) { return made<int64_t>({words}, device, [=](int64_t) { return n; }); };
    return ctc_loss(log_probabilities(device), targets, all(times), all(letters));
  }

 private:
  Linear& head_ = add("head", Linear(4, classes));
};

TEST(Learning, CtcFindsTheAlignment) {
  Spelling spelling = learned<Spelling>(100, 0.1, 0.3);
  const auto best = argmax(spelling.log_probabilities({}), 2).to_vector<int64_t>();
  for (int64_t word = 0; word < Spelling::words; ++word) {
    std::vector<int64_t> read, wanted;
    int64_t last = 0;
    for (int64_t time = 0; time < Spelling::times; ++time) {
      const int64_t now = best[static_cast<size_t>(time * Spelling::words + word)];
      if (now != last && now != 0) read.push_back(now);
      last = now;
    }
    for (int64_t place = 0; place < Spelling::letters; ++place)
      wanted.push_back(Spelling::letter(word, place));
    EXPECT_EQ(read, wanted) << "word " << word;
  }
}

/// A picture and a turned and shifted copy: which affine map makes one from the other?
class SpatialTransformer : public Learner {
 public:
  Tensor loss(Device device) override {
    const Tensor picture = made<float>({1, 1, 12, 12}, device, [](int64_t i) {
      const int64_t row = i / 12, column = i % 12;
      const auto y = static_cast<double>(row - 4), x = static_cast<double>(column - 6);
      return std::exp(-(x * x / 9 + y * y / 4));
    });
    const Tensor wanted = Tensor::from<float>({0.9F, -0.25F, 0.2F, 0.25F, 0.9F, -0.15F}, {1, 2, 3}, device);
    const auto moved = [&](const Tensor& theta) { return grid_sample(picture, affine_grid(theta, 12)); };
    return mse_loss(moved(theta), moved(wanted)) * 100;
  }

  Parameter theta = add_parameter("theta", Tensor::from<float>({1, 0, 0, 0, 1, 0}, {1, 2, 3}));
};

TEST(Learning, GridSampleFindsTheMap) {
  const SpatialTransformer found = learned<SpatialTransformer>(400, 0.02, 0.002);
  const auto theta = Tensor(found.theta).to_vector<float>();
  EXPECT_NEAR(theta[0], 0.9, 0.05);
  EXPECT_NEAR(theta[1], -0.25, 0.05);
  EXPECT_NEAR(theta[2], 0.2, 0.03);
  EXPECT_NEAR(theta[5], -0.15, 0.03);
}

/// A modern transformer: RMSNorm, SwiGLU, and attention with rotated queries and shared keys. It memorizes
/// texts in which the letter that follows another depends on its position.
class Llama : public Learner {
 public:
  Tensor loss(Device device) override {
    const auto token = [](int64_t text, int64_t time) { return (text * 3 + time * time * (text + 1)) % 7; };
    const Tensor x = made<int64_t>({4, 8}, device, [&](int64_t i) { return token(i / 8, i % 8); });
    const Tensor next = made<int64_t>({32}, device, [&](int64_t i) { return token(i / 8, i % 8 + 1); });
    Tensor h = embedding_(x);
    h = h + attention_(norm1_(h));
    h = h + feed_(norm2_(h));
    return cross_entropy(reshape(head_(norm3_(h)), {32, 7}), next);
  }

 private:
  Embedding& embedding_ = add("embedding", Embedding(7, 16));
  RMSNorm& norm1_ = add("norm1", RMSNorm(16));
  MultiheadAttention& attention_ = add(
      "attention", MultiheadAttention(16, 4, {.causal = true, .kv_heads = 2, .window = 6, .rotary = true}));
  RMSNorm& norm2_ = add("norm2", RMSNorm(16));
  SwiGLU& feed_ = add("feed", SwiGLU(16, 32));
  RMSNorm& norm3_ = add("norm3", RMSNorm(16));
  Linear& head_ = add("head", Linear(16, 7));
};

TEST(Learning, TransformerLearnsByHeart) { learned<Llama>(80, 0.02, 0.2); }

/// Each of 24 nodes sends its number to the next and must find the class of the previous one. Only edges can
/// tell it. The weights of the edges are learned too.
class Graph : public Learner {
 public:
  static constexpr int64_t nodes = 24, classes = 3;
  Tensor loss(Device device) override {
    const Tensor starts = made<int64_t>({nodes + 1}, device, [](int64_t i) { return 2 * i; });
    // The node itself, and the previous node.
    const Tensor columns =
        made<int64_t>({2 * nodes}, device, [](int64_t i) { return (i / 2 + nodes - i % 2) % nodes; });
    const Tensor label =
        made<int64_t>({nodes}, device, [](int64_t i) { return (i + nodes - 1) % nodes * 7 % 5 % classes; });
    return cross_entropy(csr_matmul({starts, columns, edges, nodes}, features), label);
  }

  Parameter edges = add_parameter("edges", full({2 * nodes}, 0.5));
  Parameter features = add_parameter("features", normal({nodes, classes}));
};

TEST(Learning, SparseProductBringsNeighbours) {
  const Graph graph = learned<Graph>(60, 0.1, 0.05);
  EXPECT_GT(sum(abs(Tensor(graph.edges) - 0.5)).item(), 1);  // the edges have learned too
}

}  // namespace
}  // namespace athanor::nn
