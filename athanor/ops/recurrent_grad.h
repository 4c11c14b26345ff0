// Gradient rules of lstm and gru.
#pragma once
#include "athanor/graph/op.h"

namespace athanor {

std::vector<Tensor> lstm_gradient(const GradArgs& a);
std::vector<Tensor> gru_gradient(const GradArgs& a);

}  // namespace athanor
