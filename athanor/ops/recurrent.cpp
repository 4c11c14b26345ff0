#include "athanor/ops/recurrent.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/ops/activations.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/recurrent_grad.h"

namespace athanor {
namespace {

/// Checks gates [N, T, count H], a weight [count H, H], and the bias and states after them.
TensorType recurrence_type(std::span<const TensorType> in, int64_t count) {
  for (const TensorType& type : in) {
    check_dtype(type, Accept::floats);
    if (type.dtype != in[0].dtype)
      throw Error(ErrorCode::dtype, "takes inputs of one dtype", {}, "Cast them first");
  }
  const Shape &gates = in[0].shape, &weight = in[1].shape;
  if (gates.rank() != 3 || gates[2] % count != 0 || gates[1] < 1 || gates[2] < 1)
    throw Error(ErrorCode::shape, fmt::format("the gates are {}", to_string(gates)), {},
                fmt::format("They are [N, T, {} H] with T and H at least 1", count));
  const int64_t n = gates[0], h = gates[2] / count;
  if (weight != Shape{count * h, h})
    throw Error(ErrorCode::shape, fmt::format("the weight is {}", to_string(weight)), {},
                fmt::format("For these gates it is [{}, {}]", count * h, h));
  const auto check_state = [&](size_t place, const char* name) {
    if (in[place].shape != Shape{n, h})
      throw Error(ErrorCode::shape, fmt::format("the first {} is {}", name, to_string(in[place].shape)), {},
                  fmt::format("It is [{}, {}]", n, h));
  };
  if (count == 3 && in[2].shape != Shape{3 * h})
    throw Error(ErrorCode::shape, fmt::format("the bias is {}, not [{}]", to_string(in[2].shape), 3 * h));
  check_state(count == 4 ? 2 : 3, "hidden state");
  if (count == 4) check_state(3, "cell state");
  return {in[0].dtype, {n, gates[1], count == 4 ? 2 * h : h}, {}};
}

Tensor gates_at(const Tensor& gates, int64_t time) { return widened(slice(gates, {Slice(), time})); }

Tensor lstm_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor &gates = in[0], weight = transpose(in[1]);
  Tensor hidden = in[2], cell = widened(in[3]);
  std::vector<Tensor> hiddens, cells;
  for (int64_t time = 0; time < gates.size(1); ++time) {
    const auto part = chunk(gates_at(gates, time) + widened(matmul(hidden, weight)), 4, 1);
    cell = sigmoid(part[1]) * cell + sigmoid(part[0]) * tanh(part[2]);
    hidden = cast(sigmoid(part[3]) * tanh(cell), gates.dtype());
    hiddens.push_back(hidden), cells.push_back(cast(cell, gates.dtype()));
  }
  return concat({stack(hiddens, 1), stack(cells, 1)}, 2);
}

Tensor gru_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor &gates = in[0], weight = transpose(in[1]), bias = widened(in[2]);
  Tensor hidden = in[3];
  std::vector<Tensor> hiddens;
  for (int64_t time = 0; time < gates.size(1); ++time) {
    const auto given = chunk(gates_at(gates, time), 3, 1);
    const auto own = chunk(widened(matmul(hidden, weight)) + bias, 3, 1);
    const Tensor reset = sigmoid(given[0] + own[0]), update = sigmoid(given[1] + own[1]);
    const Tensor next = tanh(given[2] + reset * own[2]);
    hidden = cast(next + update * (widened(hidden) - next), gates.dtype());
    hiddens.push_back(hidden);
  }
  return stack(hiddens, 1);
}

double squashed(double x) { return 1 / (1 + std::exp(-x)); }

/// weight h, [rows]; h begins at state[first].
std::vector<double> recurrent_product(const RefArray& weight, const std::vector<double>& state,
                                      int64_t first) {
  const int64_t h = weight.shape[1];
  std::vector<double> result(static_cast<size_t>(weight.shape[0]));
  for (int64_t row = 0; row < weight.shape[0]; ++row)
    for (int64_t i = 0; i < h; ++i)
      result[static_cast<size_t>(row)] += weight[row * h + i] * state[static_cast<size_t>(first + i)];
  return result;
}

RefArray lstm_reference(std::span<const RefArray> in, const Attrs&) {
  const int64_t batch = in[0].shape[0], times = in[0].shape[1], h = in[1].shape[1];
  RefArray y({batch, times, 2 * h});
  std::vector<double> hidden = in[2].data, cell = in[3].data;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t t = 0; t < times; ++t) {
      const auto own = recurrent_product(in[1], hidden, n * h);
      for (int64_t i = 0; i < h; ++i) {
        const auto gate = [&](int64_t which) {
          return in[0][(n * times + t) * 4 * h + which * h + i] + own[static_cast<size_t>(which * h + i)];
        };
        double& c = cell[static_cast<size_t>(n * h + i)];
        c = squashed(gate(1)) * c + squashed(gate(0)) * std::tanh(gate(2));
        y[(n * times + t) * 2 * h + i] = squashed(gate(3)) * std::tanh(c);
        y[(n * times + t) * 2 * h + h + i] = c;
      }
      for (int64_t i = 0; i < h; ++i) hidden[static_cast<size_t>(n * h + i)] = y[(n * times + t) * 2 * h + i];
    }
  return y;
}

RefArray gru_reference(std::span<const RefArray> in, const Attrs&) {
  const int64_t batch = in[0].shape[0], times = in[0].shape[1], h = in[1].shape[1];
  RefArray y({batch, times, h});
  std::vector<double> hidden = in[3].data;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t t = 0; t < times; ++t) {
      auto own = recurrent_product(in[1], hidden, n * h);
      for (size_t i = 0; i < own.size(); ++i) own[i] += in[2].data[i];
      for (int64_t i = 0; i < h; ++i) {
        const auto given = [&](int64_t which) { return in[0][(n * times + t) * 3 * h + which * h + i]; };
        const auto mine = [&](int64_t which) { return own[static_cast<size_t>(which * h + i)]; };
        const double r = squashed(given(0) + mine(0)), z = squashed(given(1) + mine(1));
        double& state = hidden[static_cast<size_t>(n * h + i)];
        state = (1 - z) * std::tanh(given(2) + r * mine(2)) + z * state;
        y[(n * times + t) * h + i] = state;
      }
    }
  return y;
}

auto recurrence_flops(int64_t count) {
  return [count](std::span<const TensorType> in, const auto&, const auto&) {
    const int64_t h = in[1].shape[1];
    return in[0].shape[0] * in[0].shape[1] * h * (2 * count * h + 10);
  };
}

// The first state, zeros unless it is given.
Tensor first_state(const Tensor& given, const Tensor& gates, int64_t features) {
  return given.defined() ? cast(given, gates.dtype())
                         : zeros({gates.size(0), features}, gates.dtype(), gates.device());
}

// The gates and the number of features of the state.
std::pair<Tensor, int64_t> checked_gates(const Operand& gates, const Operand& weight) {
  const Tensor value = as_tensor(gates), w = as_tensor(weight);
  if (value.rank() != 3 || w.rank() != 2)
    throw Error(ErrorCode::shape,
                fmt::format("gates {} and a weight {}", to_string(value.shape()), to_string(w.shape())), {},
                "They are [N, T, gates * H] and [gates * H, H]");
  return {value, w.size(1)};
}

}  // namespace

ATHANOR_OPS(recurrent) {
  define_op({.name = "lstm",
             .doc = "gates [N, T, 4H], weight [4H, H], h and c [N, H] -> [N, T, 2H]: h and c at every time",
             .arity = 4,
             .infer = [](std::span<const TensorType> in, const Attrs&) { return recurrence_type(in, 4); },
             .grad = lstm_gradient,
             .decompose = lstm_decompose,
             .reference = lstm_reference,
             .cases = {{{{{2, 2, 12}}, {{12, 3}}, {{2, 3}}, {{2, 3}}}},
                       {{{{1, 3, 4}}, {{4, 1}}, {{1, 1}}, {{1, 1}}}},
                       {{{{0, 2, 8}}, {{8, 2}}, {{0, 2}}, {{0, 2}}}}},
             .flops = recurrence_flops(4),
             .tolerance = 8,
             .cast_policy = CastPolicy::allow,
             .fed_back = 1});
  define_op({.name = "gru",
             .doc = "gates [N, T, 3H], weight [3H, H], bias [3H], h [N, H] -> [N, T, H]: h at every time",
             .arity = 4,
             .infer = [](std::span<const TensorType> in, const Attrs&) { return recurrence_type(in, 3); },
             .grad = gru_gradient,
             .decompose = gru_decompose,
             .reference = gru_reference,
             .cases = {{{{{2, 2, 9}}, {{9, 3}}, {{9}}, {{2, 3}}}},
                       {{{{1, 3, 3}}, {{3, 1}}, {{3}}, {{1, 1}}}},
                       {{{{0, 2, 6}}, {{6, 2}}, {{6}}, {{0, 2}}}}},
             .flops = recurrence_flops(3),
             .tolerance = 8,
             .cast_policy = CastPolicy::allow,
             .fed_back = 1});
}

LstmStates lstm(Operand gates, Operand weight, const Tensor& hidden, const Tensor& cell) {
  static const Op& op = find_op("lstm");
  return in_call(
      "lstm",
      [&] {
        const auto [value, h] = checked_gates(gates, weight);
        const Tensor both =
            apply(op, {value, weight, first_state(hidden, value, h), first_state(cell, value, h)});
        return LstmStates{slice(both, 2, 0, h), slice(both, 2, h, 2 * h)};
      },
      gates, weight);
}

Tensor gru(Operand gates, Operand weight, const Tensor& bias, const Tensor& hidden) {
  static const Op& op = find_op("gru");
  return in_call(
      "gru",
      [&] {
        const auto [value, h] = checked_gates(gates, weight);
        const Tensor b = bias.defined() ? bias : zeros({3 * h}, value.dtype(), value.device());
        return apply(op, {value, weight, b, first_state(hidden, value, h)});
      },
      gates, weight);
}

}  // namespace athanor
