// Recurrence over the second axis of [N, T, ...], of floats. The caller computes the inputs' part of the
// gates for all time steps before: linear(x, weight_ih, bias). Gates are in PyTorch's order.
//
// A plan has one kernel for all time steps on the CPU in f32 and f64, and on GPUs for up to 1365 features
// (f64: 682). Otherwise it has kernels for each time step, and many steps make a long plan. All functions
// throw Error(shape), naming what does not fit, and Error(dtype).
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

struct LstmStates {
  Tensor hidden, cell;  // after every time step, [N, T, H]
};
/// Long short-term memory: gates [N, T, 4 H] (input, forget, cell, output), weight [4 H, H], first states [N,
/// H] or {} (zeros). c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). To each given gate its
/// part of weight h is added. Hochreiter, Schmidhuber (1997); Gers et al. (2000).
LstmStates lstm(Operand gates, Operand weight, const Tensor& hidden = {}, const Tensor& cell = {});

/// Gated recurrent unit: gates [N, T, 3 H] (reset, update, new), weight [3 H, H], bias [3 H] or {} (zeros),
/// first state [N, H] or {} (zeros) -> [N, T, H]. With u = weight h + bias: r = sigmoid(r + u_r), z =
/// sigmoid(z + u_z), h = (1 - z) tanh(n + r u_n) + z h. Cho et al. (2014), as in cuDNN and PyTorch.
Tensor gru(Operand gates, Operand weight, const Tensor& bias = {}, const Tensor& hidden = {});

}  // namespace athanor
