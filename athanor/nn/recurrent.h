// Recurrent layers.
#pragma once
#include "athanor/nn/module.h"

namespace athanor::nn {

struct RecurrentOptions {
  int64_t layers = 1;
  bool bias = true;
  bool bidirectional = false;  // a second recurrence runs backwards; their results are concatenated
  double dropout = 0;          // after every layer but the last, in training
};

/// What LSTM and GRU share: x [N, T, I] -> the state at every time, [N, T, H] ([N, T, 2 H] if bidirectional).
///
/// Parameters have PyTorch's names and layouts, for layer k: weight_ih_lk [G H, I], weight_hh_lk [G H, H],
/// bias_ih_lk and bias_hh_lk [G H], with "_reverse" for the way back. All are uniform in ± 1 / sqrt(H). See
/// athanor/ops/recurrent.h for the gates and their order.
class Recurrent : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 protected:
  /// The weights of one direction of a layer.
  struct Weights {
    Parameter input, hidden, input_bias, hidden_bias;
  };
  using States = std::vector<Tensor>;  // h, or h and c

  /// Throws Error(value) for extents below 1 or a dropout outside [0, 1).
  Recurrent(const char* name, int64_t gates, size_t states, int64_t inputs, int64_t features,
            const RecurrentOptions& options);
  /// x [N, T, I] through all layers. states[i]: [layers * directions, N, H], replaced by the last state.
  Tensor run(const Tensor& x, std::vector<Tensor>& states) const;
  /// x [N, T, I] through one direction. states[i]: [N, H] or {} (zeros), replaced by the last state.
  virtual Tensor one_way(const Tensor& x, const Weights& weights, States& states) const = 0;

 private:
  const char* name_;
  size_t states_;  // 2: h and c
  int64_t inputs_, features_;
  RecurrentOptions options_;
  std::vector<Weights> weights_;  // of each layer, forwards and then backwards
};

/// [layers * directions, N, H] each; {} is zeros.
struct LstmState {
  Tensor h, c;
};

/// Long short-term memory.
class LSTM : public Recurrent {
 public:
  LSTM(int64_t inputs, int64_t features, const RecurrentOptions& options = {});
  using Recurrent::forward;
  /// Starts from a given state and replaces it by the last state.
  Tensor forward(const Tensor& x, LstmState& state) const;

 protected:
  Tensor one_way(const Tensor& x, const Weights& weights, States& states) const override;
};

/// Gated recurrent units.
class GRU : public Recurrent {
 public:
  GRU(int64_t inputs, int64_t features, const RecurrentOptions& options = {});
  using Recurrent::forward;
  /// Starts from a given state [layers * directions, N, H] ({}: zeros) and replaces it by the last state.
  Tensor forward(const Tensor& x, Tensor& state) const;

 protected:
  Tensor one_way(const Tensor& x, const Weights& weights, States& states) const override;
};

}  // namespace athanor::nn
