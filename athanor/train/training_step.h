// One training step, as part of the graph.
#pragma once
#include <memory>
#include <vector>

#include "athanor/graph/tensor.h"
#include "athanor/nn/module.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optimizer.h"
#include "athanor/train/config.h"

namespace athanor {

/// The optimizer that a run's options ask for.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 std::vector<nn::Parameter> parameters);

struct StepOptions {
  double label_smoothing = 0;
  double clip_norm = 0;  // 0: no clipping
  Precision precision = Precision::f32;
  optim::GradScaler* scaler = nullptr;  // for f16
};

/// The results of a step, not computed yet. `loss.item()` runs the whole step as one plan: forward, backward
/// and update.
struct PendingStep {
  Tensor loss;     // f32: the mean cross-entropy of the batch
  Tensor correct;  // i64: how many pictures were classified correctly
  // With a scaler:
  Tensor loss_scale = {};  // f32: what the loss was multiplied by
  Tensor skipped = {};     // i64: how many steps were skipped so far, this one among them
};

/// Extends the graph by one step of `optimizer` on a batch: pictures [N, C, H, W], labels i64[N].
PendingStep training_step(nn::Module& model, optim::Optimizer& optimizer, const Tensor& pictures,
                          const Tensor& labels, const StepOptions& options = {});

/// The same two numbers, without gradients and update. Set the model to eval() before. Labels of -100 do not
/// count.
PendingStep test_step(nn::Module& model, const Tensor& pictures, const Tensor& labels);

}  // namespace athanor
