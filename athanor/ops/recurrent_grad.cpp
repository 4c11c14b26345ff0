// Gradients of lstm and gru: backwards through time. Parts that do not depend on another time step are
// computed for all steps at once: the states' part of the gates before, and the weights' gradients after.
#include "athanor/ops/recurrent_grad.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/ops/activations.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

// Part `which` of the last axis, H wide.
Tensor part_of(const Tensor& x, int64_t which, int64_t h) { return slice(x, -1, which * h, (which + 1) * h); }

// The states [N, T, H] before each time step, from the first state [N, H] and the states after each step.
Tensor states_before(const Tensor& first, const Tensor& after) {
  return concat({unsqueeze(first, 1), slice(after, 1, 0, after.size(1) - 1)}, 1);
}

// sum over n and t of a[n, t, i] b[n, t, j]
Tensor product_over_times(const Tensor& a, const Tensor& b) {
  const int64_t rows = a.size(0) * a.size(1);
  return matmul(transpose(reshape(a, {rows, a.size(2)})), reshape(b, {rows, b.size(2)}));
}

Tensor at_time(const Tensor& x, int64_t time) { return slice(x, {Slice(), time}); }

Tensor through_sigmoid(const Tensor& y) { return y * (1 - y); }
Tensor through_tanh(const Tensor& y) { return 1 - square(y); }

// ---- LSTM ----

// gates [N, T, 4H] with the states' part, weight, c0, y [N, T, 2H], dy -> [N, T, 5H]
TensorType lstm_grad_type(std::span<const TensorType> in, const Attrs&) {
  const Shape& gates = in[0].shape;
  const int64_t h = in[1].shape.rank() == 2 ? in[1].shape[1] : -1;
  if (gates.rank() != 3 || gates[2] != 4 * h || in[2].shape != Shape{gates[0], h} ||
      in[3].shape != Shape{gates[0], gates[1], 2 * h} || in[4].shape != in[3].shape)
    throw Error(ErrorCode::shape, fmt::format("gates {} and y {}", to_string(gates), to_string(in[3].shape)));
  return {in[0].dtype, {gates[0], gates[1], 5 * h}, {}};
}

Tensor lstm_grad_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor gates = widened(in[0]), &weight = in[1], y = widened(in[3]), dy = widened(in[4]);
  const int64_t h = weight.size(1), times = gates.size(1);
  const Tensor cells = part_of(y, 1, h), before = states_before(widened(in[2]), cells);
  const Tensor input = sigmoid(part_of(gates, 0, h)), forget = sigmoid(part_of(gates, 1, h)),
               cell = tanh(part_of(gates, 2, h)), output = sigmoid(part_of(gates, 3, h));
  const Tensor squashed = tanh(cells);
  // Factors of the gradients: from the cell state's gradient to those of its three gates (by_cell), and from
  // the hidden state's gradient to those of the output gate (to_output) and of the cell state (to_cell).
  const Tensor by_cell = concat(
      {cell * through_sigmoid(input), before * through_sigmoid(forget), input * through_tanh(cell)}, 2);
  const Tensor to_output = squashed * through_sigmoid(output), to_cell = output * through_tanh(squashed);
  std::vector<Tensor> all(static_cast<size_t>(times));
  Tensor later_hidden, later_cell;
  for (int64_t time = times; time-- > 0;) {
    Tensor hidden = at_time(part_of(dy, 0, h), time), state = at_time(part_of(dy, 1, h), time);
    if (later_hidden.defined()) hidden = hidden + later_hidden, state = state + later_cell;
    state = state + hidden * at_time(to_cell, time);
    const Tensor gate = concat(
        {concat({state, state, state}, 1) * at_time(by_cell, time), hidden * at_time(to_output, time)}, 1);
    later_cell = state * at_time(forget, time);
    all[static_cast<size_t>(time)] = concat({gate, later_cell}, 1);
    if (time > 0) later_hidden = widened(matmul(cast(gate, weight.dtype()), weight));
  }
  return cast(stack(all, 1), in[0].dtype());
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

RefArray lstm_grad_reference(std::span<const RefArray> in, const Attrs&) {
  const int64_t batch = in[0].shape[0], times = in[0].shape[1], h = in[1].shape[1];
  RefArray result({batch, times, 5 * h});
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<double> hidden(static_cast<size_t>(h)), state(hidden);
    for (int64_t t = times; t-- > 0;) {
      const int64_t row = n * times + t;
      for (int64_t i = 0; i < h; ++i) {
        const auto gate = [&](int64_t which) { return in[0][row * 4 * h + which * h + i]; };
        const auto at = static_cast<size_t>(i);
        const double c = in[3][row * 2 * h + h + i],
                     before = t > 0 ? in[3][(row - 1) * 2 * h + h + i] : in[2][n * h + i];
        const double a = sigmoid_of(gate(0)), f = sigmoid_of(gate(1)), g = std::tanh(gate(2)),
                     o = sigmoid_of(gate(3));
        const double dh = in[4][row * 2 * h + i] + hidden[at];
        const double dc = in[4][row * 2 * h + h + i] + state[at] + dh * o * (1 - std::tanh(c) * std::tanh(c));
        double* to = &result[row * 5 * h + i];
        to[0] = dc * g * a * (1 - a), to[h] = dc * before * f * (1 - f), to[2 * h] = dc * a * (1 - g * g);
        to[3 * h] = dh * std::tanh(c) * o * (1 - o), to[4 * h] = dc * f;
        state[at] = dc * f;
      }
      for (int64_t i = 0; i < h; ++i) {
        double& sum = hidden[static_cast<size_t>(i)] = 0;
        for (int64_t j = 0; j < 4 * h; ++j) sum += result[row * 5 * h + j] * in[1][j * h + i];
      }
    }
  }
  return result;
}

// ---- GRU ----

// gates [N, T, 3H] as given, the states' part [N, T, 3H], weight, h0, y [N, T, H], dy -> [N, T, 5H]
TensorType gru_grad_type(std::span<const TensorType> in, const Attrs&) {
  const Shape& gates = in[0].shape;
  const int64_t h = in[2].shape.rank() == 2 ? in[2].shape[1] : -1;
  if (gates.rank() != 3 || gates[2] != 3 * h || in[1].shape != gates || in[3].shape != Shape{gates[0], h} ||
      in[4].shape != Shape{gates[0], gates[1], h} || in[5].shape != in[4].shape)
    throw Error(ErrorCode::shape, fmt::format("gates {} and y {}", to_string(gates), to_string(in[4].shape)));
  return {in[0].dtype, {gates[0], gates[1], 5 * h}, {}};
}

Tensor gru_grad_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor gates = widened(in[0]), own = widened(in[1]), &weight = in[2], dy = widened(in[5]);
  const int64_t h = weight.size(1), times = gates.size(1);
  const Tensor before = states_before(widened(in[3]), widened(in[4]));
  const Tensor reset = sigmoid(part_of(gates, 0, h) + part_of(own, 0, h)),
               update = sigmoid(part_of(gates, 1, h) + part_of(own, 1, h)), mine = part_of(own, 2, h),
               next = tanh(part_of(gates, 2, h) + reset * mine);
  const Tensor to_next = (1 - update) * through_tanh(next);
  // Factors from a state's gradient to those of the new gate, the reset gate, the update gate, the state's
  // own part of the new gate, and the state before.
  const Tensor by_state = concat({to_next, to_next * mine * through_sigmoid(reset),
                                  (before - next) * through_sigmoid(update), to_next * reset, update},
                                 2);
  std::vector<Tensor> all(static_cast<size_t>(times));
  Tensor later;
  for (int64_t time = times; time-- > 0;) {
    const Tensor state = later.defined() ? at_time(dy, time) + later : at_time(dy, time);
    const Tensor row = concat({state, state, state, state, state}, 1) * at_time(by_state, time);
    all[static_cast<size_t>(time)] = row;
    if (time > 0)
      later = part_of(row, 4, h) + widened(matmul(cast(slice(row, 1, h, 4 * h), weight.dtype()), weight));
  }
  return cast(stack(all, 1), in[0].dtype());
}

RefArray gru_grad_reference(std::span<const RefArray> in, const Attrs&) {
  const int64_t batch = in[0].shape[0], times = in[0].shape[1], h = in[2].shape[1];
  RefArray result({batch, times, 5 * h});
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<double> later(static_cast<size_t>(h));
    for (int64_t t = times; t-- > 0;) {
      const int64_t row = n * times + t;
      for (int64_t i = 0; i < h; ++i) {
        const auto given = [&](int64_t which) { return in[0][row * 3 * h + which * h + i]; };
        const auto own = [&](int64_t which) { return in[1][row * 3 * h + which * h + i]; };
        const double before = t > 0 ? in[4][(row - 1) * h + i] : in[3][n * h + i];
        const double r = sigmoid_of(given(0) + own(0)), z = sigmoid_of(given(1) + own(1)),
                     next = std::tanh(given(2) + r * own(2));
        const double dh = in[5][row * h + i] + later[static_cast<size_t>(i)],
                     dn = dh * (1 - z) * (1 - next * next);
        double* to = &result[row * 5 * h + i];
        to[0] = dn, to[h] = dn * own(2) * r * (1 - r), to[2 * h] = dh * (before - next) * z * (1 - z);
        to[3 * h] = dn * r, to[4 * h] = dh * z;
      }
      for (int64_t i = 0; i < h; ++i) {
        double& sum = later[static_cast<size_t>(i)] = result[row * 5 * h + 4 * h + i];
        for (int64_t j = 0; j < 3 * h; ++j) sum += result[row * 5 * h + h + j] * in[2][j * h + i];
      }
    }
  }
  return result;
}

auto recurrent_grad_flops(size_t weight, int64_t count) {
  return [weight, count](std::span<const TensorType> in, const auto&, const auto&) {
    const int64_t h = in[weight].shape[1];
    return in[0].shape[0] * in[0].shape[1] * h * (2 * count * h + 30);
  };
}

}  // namespace

ATHANOR_OPS(recurrent_grad) {
  define_op({.name = "lstm_grad",
             .doc = "gates [N, T, 4H] with the states' part, weight, first cell, y, dy -> [N, T, 5H]: the "
                    "gradients of the gates and of the cell before",
             .arity = 5,
             .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of lstm
             .infer = lstm_grad_type,
             .decompose = lstm_grad_decompose,
             .reference = lstm_grad_reference,
             .cases = {{{{{2, 2, 12}}, {{12, 3}}, {{2, 3}}, {{2, 2, 6}}, {{2, 2, 6}}}},
                       {{{{1, 3, 4}}, {{4, 1}}, {{1, 1}}, {{1, 3, 2}}, {{1, 3, 2}}}}},
             .flops = recurrent_grad_flops(1, 4),
             .tolerance = 16,
             .cast_policy = CastPolicy::allow,
             .fed_back = 1});
  define_op({.name = "gru_grad",
             .doc =
                 "gates [N, T, 3H], the states' part of them, weight, first state, y, dy -> [N, T, 5H]: the "
                 "gradients of the new, reset and update gates, of the state's part of the new one, and of "
                 "the state before without the gates",
             .arity = 6,
             .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of gru
             .infer = gru_grad_type,
             .decompose = gru_grad_decompose,
             .reference = gru_grad_reference,
             .cases = {{{{{2, 2, 9}}, {{2, 2, 9}}, {{9, 3}}, {{2, 3}}, {{2, 2, 3}}, {{2, 2, 3}}}},
                       {{{{1, 3, 3}}, {{1, 3, 3}}, {{3, 1}}, {{1, 1}}, {{1, 3, 1}}, {{1, 3, 1}}}}},
             .flops = recurrent_grad_flops(2, 3),
             .tolerance = 16,
             .cast_policy = CastPolicy::allow,
             .fed_back = 2});
}

std::vector<Tensor> lstm_gradient(const GradArgs& a) {
  const Tensor &gates = a.inputs[0], &weight = a.inputs[1], &first = a.inputs[2], &cell = a.inputs[3];
  const int64_t h = weight.size(1);
  const Tensor hidden = states_before(first, part_of(a.output, 0, h));
  const Tensor whole = gates + matmul(hidden, transpose(weight));
  const Tensor all = apply(find_op("lstm_grad"), {whole, weight, cell, a.output, a.grad});
  const Tensor dgates = slice(all, -1, 0, 4 * h), start = at_time(all, 0);
  return {dgates, a.needed[1] ? product_over_times(dgates, hidden) : Tensor(),
          a.needed[2] ? matmul(slice(start, 1, 0, 4 * h), weight) : Tensor(),
          a.needed[3] ? slice(start, 1, 4 * h, 5 * h) : Tensor()};
}

std::vector<Tensor> gru_gradient(const GradArgs& a) {
  const Tensor &gates = a.inputs[0], &weight = a.inputs[1], &bias = a.inputs[2], &first = a.inputs[3];
  const int64_t h = weight.size(1);
  const Tensor hidden = states_before(first, a.output);
  const Tensor own = matmul(hidden, transpose(weight)) + bias;
  const Tensor all = apply(find_op("gru_grad"), {gates, own, weight, first, a.output, a.grad});
  const Tensor mine = slice(all, -1, h, 4 * h), start = at_time(all, 0);
  return {concat({slice(all, -1, h, 3 * h), part_of(all, 0, h)}, 2),
          a.needed[1] ? product_over_times(mine, hidden) : Tensor(),
          a.needed[2] ? sum(mine, {0, 1}) : Tensor(),
          a.needed[3] ? part_of(start, 4, h) + matmul(slice(start, 1, h, 4 * h), weight) : Tensor()};
}

}  // namespace athanor
