// Gradient clipping: between backward() and step().
#pragma once
#include <source_location>
#include <vector>

#include "athanor/nn/variable.h"

namespace athanor::optim {

/// Scales all gradients together by min(1, max_norm / (norm + 1e-6)). Returns their Euclidean norm before
/// that, as a lazy scalar. This is part of the step's plan. Pascanu, Mikolov, Bengio (2013). Throws
/// Error(value) for max_norm <= 0.
Tensor clip_grad_norm(const std::vector<nn::Parameter>& parameters, double max_norm,
                      std::source_location where = std::source_location::current());
/// Clamps every element of every gradient to [-limit, limit]. Throws Error(value) for limit <= 0.
void clip_grad_value(const std::vector<nn::Parameter>& parameters, double limit,
                     std::source_location where = std::source_location::current());

}  // namespace athanor::optim
