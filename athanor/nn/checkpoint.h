// Activation checkpointing by hand.
#pragma once
#include <functional>

#include "athanor/nn/module.h"

namespace athanor::nn {

/// Computes f(x) and keeps only the result. Values in between are recomputed by the same kernels when
/// gradients need them. This takes less memory and more time. Every number stays the same, random ones too.
/// The same as PyTorch's torch.utils.checkpoint.
///
///     for (Module* block : blocks_) x = nn::checkpoint(*block, x);
///
/// Results of reductions (means, row sums) are small and kept. A checkpoint within a checkpoint is part of
/// the outer one. CompileOptions::memory_limit recomputes automatically.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);
Tensor checkpoint(Module& module, const Tensor& x);

}  // namespace athanor::nn
