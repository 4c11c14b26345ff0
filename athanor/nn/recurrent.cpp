#include "athanor/nn/recurrent.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/base/error.h"
#include "athanor/nn/init.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/random.h"
#include "athanor/ops/recurrent.h"

namespace athanor::nn {
namespace {

Tensor tensor_or_none(const Parameter& p) { return p.defined() ? p.value() : Tensor(); }

}  // namespace

Recurrent::Recurrent(const char* name, int64_t gates, size_t states, int64_t inputs, int64_t features,
                     const RecurrentOptions& options)
    : name_(name), states_(states), inputs_(inputs), features_(features), options_(options) {
  if (inputs < 1 || features < 1 || options.layers < 1)
    throw Error(ErrorCode::value,
                fmt::format("{}({} -> {}) of {} layers", name, inputs, features, options.layers), {},
                "All are at least 1");
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw Error(ErrorCode::value, fmt::format("{} with a dropout of {}", name, options.dropout), {},
                "It must be in [0, 1)");
  const double bound = 1 / std::sqrt(static_cast<double>(features));
  const int64_t directions = options.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options.layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string end = fmt::format("_l{}{}", layer, direction == 1 ? "_reverse" : "");
      const auto make = [&](const char* what, const Shape& shape) {
        return add_parameter(what + end, init::uniform(shape, -bound, bound));
      };
      Weights w;
      w.input = make("weight_ih", {gates * features, layer == 0 ? inputs : features * directions});
      w.hidden = make("weight_hh", {gates * features, features});
      if (options.bias) {
        w.input_bias = make("bias_ih", {gates * features});
        w.hidden_bias = make("bias_hh", {gates * features});
      }
      weights_.push_back(std::move(w));
    }
}

Tensor Recurrent::run(const Tensor& x, std::vector<Tensor>& states) const {
  if (x.rank() != 3 || x.size(2) != inputs_ || x.size(1) < 1)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(x.type())), {},
                fmt::format("It takes [N, T, {}] with T at least 1", inputs_));
  const Shape wanted{static_cast<int64_t>(weights_.size()), x.size(0), features_};
  for (const Tensor& state : states)
    if (state.defined() && state.shape() != wanted)
      throw Error(ErrorCode::shape,
                  fmt::format("{} was given a state {}", describe(), to_string(state.type())), {},
                  fmt::format("It is {}", to_string(wanted)));
  const size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<std::vector<Tensor>> last(states.size());
  Tensor y = x;
  for (size_t layer = 0; layer * directions < weights_.size(); ++layer) {
    std::vector<Tensor> ways;
    for (size_t direction = 0; direction < directions; ++direction) {
      const size_t place = layer * directions + direction;
      States own;
      for (const Tensor& state : states)
        own.push_back(state.defined() ? slice(state, {static_cast<int64_t>(place)}) : Tensor());
      const Tensor in = direction == 1 ? flip(y, {1}) : y;
      const Tensor out = one_way(in, weights_[place], own);
      ways.push_back(direction == 1 ? flip(out, {1}) : out);
      for (size_t i = 0; i < own.size(); ++i) last[i].push_back(own[i]);
    }
    y = concat(ways, 2);
    if (options_.dropout > 0 && (layer + 1) * directions < weights_.size())
      y = dropout(y, options_.dropout, training());
  }
  for (size_t i = 0; i < states.size(); ++i) states[i] = stack(last[i], 0);
  return y;
}

Tensor Recurrent::forward(const Tensor& x) {
  std::vector<Tensor> states(states_);
  return run(x, states);
}

std::string Recurrent::describe() const {
  std::string text = fmt::format("{}({} -> {}", name_, inputs_, features_);
  if (options_.layers > 1) text += fmt::format(", {} layers", options_.layers);
  if (options_.bidirectional) text += ", bidirectional";
  if (options_.dropout > 0) text += fmt::format(", dropout {}", options_.dropout);
  return text + (options_.bias ? ")" : ", no bias)");
}

LSTM::LSTM(int64_t inputs, int64_t features, const RecurrentOptions& options)
    : Recurrent("LSTM", 4, 2, inputs, features, options) {}

Tensor LSTM::one_way(const Tensor& x, const Weights& w, States& states) const {
  Tensor bias = tensor_or_none(w.input_bias);
  if (bias.defined()) bias = bias + w.hidden_bias.value();
  const auto [hidden, cell] = lstm(linear(x, w.input, bias), w.hidden, states[0], states[1]);
  states = {slice(hidden, {Slice(), -1}), slice(cell, {Slice(), -1})};
  return hidden;
}

Tensor LSTM::forward(const Tensor& x, LstmState& state) const {
  std::vector<Tensor> states{state.h, state.c};
  Tensor y = run(x, states);
  state = {states[0], states[1]};
  return y;
}

GRU::GRU(int64_t inputs, int64_t features, const RecurrentOptions& options)
    : Recurrent("GRU", 3, 1, inputs, features, options) {}

Tensor GRU::one_way(const Tensor& x, const Weights& w, States& states) const {
  Tensor y = gru(linear(x, w.input, tensor_or_none(w.input_bias)), w.hidden, tensor_or_none(w.hidden_bias),
                 states[0]);
  states = {slice(y, {Slice(), -1})};
  return y;
}

Tensor GRU::forward(const Tensor& x, Tensor& state) const {
  std::vector<Tensor> states{state};
  Tensor y = run(x, states);
  state = states[0];
  return y;
}

}  // namespace athanor::nn
