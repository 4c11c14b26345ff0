// Activation functions: elementwise, of floats (integers become f32). The result has the shape of x. Dtypes
// and errors are those of elementwise.h.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

/// max(x, 0); the gradient at 0 is 0.
Tensor relu(Operand x);
/// x where x > 0, slope * x elsewhere.
Tensor leaky_relu(Operand x, double slope = 0.01);
/// x where x > 0, alpha * (exp(x) - 1) elsewhere (Clevert, Unterthiner, Hochreiter 2015).
Tensor elu(Operand x, double alpha = 1);
/// x * P(X <= x) for a standard normal X, by erf (Hendrycks, Gimpel 2016).
Tensor gelu(Operand x);
/// GELU's approximation by tanh, from the same paper: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Tensor gelu_tanh(Operand x);
/// x * sigmoid(x), also called swish.
Tensor silu(Operand x);
/// 1 / (1 + exp(-x))
Tensor sigmoid(Operand x);
/// log(sigmoid(x)), without overflow.
Tensor log_sigmoid(Operand x);
/// log(1 + exp(x)), without overflow.
Tensor softplus(Operand x);
/// clamp(x / 6 + 1/2, 0, 1) (Howard et al., MobileNetV3, 2019).
Tensor hard_sigmoid(Operand x);
/// x * hard_sigmoid(x)
Tensor hard_swish(Operand x);
/// silu(gate) * up. Both have the same shape (Shazeer, GLU Variants Improve Transformer, 2020).
Tensor swiglu(Operand gate, Operand up);

}  // namespace athanor
