// Adds recurrences, attention, losses and draws of random numbers to a random program.
#pragma once
#include "tests/compile/random_signals.h"

namespace athanor::testing {

class SequenceMaker : public SignalMaker {
 public:
  using SignalMaker::SignalMaker;

 protected:
  bool sequence() {
    switch (between(0, 4)) {
      case 0: {
        const int64_t n = between(1, 3), steps = between(1, 5), h = extent();
        const double size = 1 / std::sqrt(static_cast<double>(h));
        const bool first = chance(0.5);
        const std::vector<int> in{leaf({n, steps, 4 * h}), leaf({4 * h, h}, size), leaf({n, h}),
                                  leaf({n, h})};
        return add(fmt::format("lstm{}", first ? " from states" : ""), in, [=](In t) {
          const LstmStates s = first ? lstm(t[0], t[1], t[2], t[3]) : lstm(t[0], t[1]);
          return s.hidden + s.cell * 0.5;
        });
      }
      case 1: {
        const int64_t n = between(1, 3), steps = between(1, 5), h = extent();
        const double size = 1 / std::sqrt(static_cast<double>(h));
        const bool first = chance(0.5), biased = chance(0.5);
        const std::vector<int> in{leaf({n, steps, 3 * h}), leaf({3 * h, h}, size), leaf({3 * h}),
                                  leaf({n, h})};
        return add(fmt::format("gru{}{}", biased ? " bias" : "", first ? " from a state" : ""), in,
                   [=](In t) { return gru(t[0], t[1], biased ? t[2] : Tensor(), first ? t[3] : Tensor()); });
      }
      case 2: {
        const int a = pick(2, 4);
        if (shape_of(a)[shape_of(a).rank() - 1] % 2 != 0) return false;
        const RotaryOptions o{.base = 100, .interleaved = chance(0.5)};
        return add(fmt::format("rotary {}", o.interleaved), {a},
                   [=](In t) { return rotary_embedding(t[0], {}, o); });
      }
      default: {  // attention of fewer heads, windows, lengths and masks
        const int64_t n = between(1, 2), shared = between(1, 2), heads = shared * between(1, 3),
                      queries = extent(), keys = extent(), d = between(1, 4) * 4;
        AttentionOptions o{.causal = queries <= keys && chance(0.4)};
        if (queries <= keys && chance(0.3)) o.window = between(1, 4);
        if (chance(0.3)) o.scale = 0.3;
        const bool sized = !o.causal && o.window == 0 && chance(0.4), masked = chance(0.4);
        const std::vector<int64_t> seen = places(n, keys);
        const std::vector<int> in{leaf({n, heads, queries, d}), leaf({n, shared, keys, d}),
                                  leaf({n, shared, keys, chance(0.7) ? d : 8}), leaf({queries, keys})};
        return add(fmt::format("attention causal {} window {} lengths {} mask {}", o.causal, o.window,
                               sized ? seen : std::vector<int64_t>{}, masked),
                   in, [=](In t) {
                     AttentionOptions of = o;
                     if (sized) of.lengths = Tensor::from(seen, Shape{n}, t[0].device()) + 1;
                     return scaled_dot_product_attention(t[0], t[1], t[2], masked ? t[3] : Tensor(), of);
                   });
      }
    }
  }
  bool loss() {
    const int a = pick(2, 4);
    const Ints of = shape_of(a).to_ints();
    switch (between(0, 5)) {
      case 0:
      case 1: {
        Ints extents = of;
        const int64_t classes = of[1];
        extents.erase(extents.begin() + 1);
        const Shape labels(extents);
        std::vector<int64_t> at = places(labels.size(), classes);
        const LabelOptions o{.label_smoothing = chance(0.5) ? 0.1 : 0};
        for (size_t i = 1; i < at.size(); ++i)
          if (chance(0.1)) at[i] = -100;
        const bool apart = chance(0.3);
        return add(fmt::format("cross_entropy smoothing {}", o.label_smoothing), {a}, [=](In t) {
          const Tensor l = Tensor::from(at, labels, t[0].device());
          return apart ? nll_loss(log_softmax(t[0], 1), l, o) : cross_entropy(t[0], l, o);
        });
      }
      case 2:
        return add("mse_loss", {a, leaf(Shape(of))}, [](In t) { return mse_loss(t[0], t[1]); });
      case 3:
        return add("l1_loss", {a, leaf(Shape(of))}, [](In t) { return l1_loss(t[0], t[1]); });
      case 4:
        return add("bce", {a, leaf(Shape(of))},
                   [](In t) { return binary_cross_entropy_with_logits(t[0], sigmoid(t[1])); });
      default: {
        const int64_t steps = between(3, 6), n = between(1, 2), classes = between(2, 4), most = between(1, 2);
        std::vector<int64_t> targets = places(n * most, classes - 1), times, lengths;
        for (int64_t& x : targets) ++x;
        for (int64_t i = 0; i < n; ++i)
          times.push_back(between(most * 2 - 1, steps)), lengths.push_back(between(1, most));
        return add("ctc_loss", {leaf({steps, n, classes})}, [=](In t) {
          const Device d = t[0].device();
          return ctc_loss(log_softmax(t[0], 2), Tensor::from(targets, Shape{n, most}, d),
                          Tensor::from(times, Shape{n}, d), Tensor::from(lengths, Shape{n}, d));
        });
      }
    }
  }
  bool drawn() {
    const int a = pick();
    const uint64_t seed = random_();
    switch (between(0, 3)) {
      case 0:
        return add("dropout", {a}, [=](In t) {
          Generator g(seed);
          return dropout(t[0], 0.5, true, g);
        });
      case 1:
        return add("bernoulli", {a}, [=](In t) {
          Generator g(seed);
          return where(bernoulli(t[0].shape(), 0.3, g, t[0].device()), t[0], -1);
        });
      case 2:
        return add("random_integers", {a}, [=](In t) {
          Generator g(seed);
          return t[0] + like(random_integers(t[0].shape(), -2, 3, g, t[0].device()), t[0]);
        });
      default: {
        if (shape_of(a).rank() == 0) return false;
        return add("permutation", {a}, [=](In t) {
          Generator g(seed);
          return take(t[0], permutation(t[0].shape()[0], g, t[0].device()), 0);
        });
      }
    }
  }
};

}  // namespace athanor::testing
