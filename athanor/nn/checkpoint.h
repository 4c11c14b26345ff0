// Activation checkpointing by hand.
#pragma once
#include <functional>

#include "athanor/nn/module.h"

namespace athanor::nn {

/// f(x), of which only the result is kept. Values in between are recomputed by the same kernels when
/// gradients need them. This takes less memory and more time. Every number stays the same, random ones too.
/// PyTorch's torch.utils.checkpoint.
///
///     for (Module* block : blocks_) x = nn::checkpoint(*block, x);
///
/// Results of reductions (means, row sums) are small and kept. A checkpoint within a checkpoint is part of
/// the outer one. CompileOptions::memory_limit recomputes automatically.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);
Tensor checkpoint(Module& module, const Tensor& x);

}  // namespace athanor::nn
