// One training step, as part of the graph.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "athanor/graph/tensor.h"
#include "athanor/nn/module.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optimizer.h"
#include "athanor/train/config.h"

namespace athanor {

/// The optimizer of a run's options, for the parameters that they do not freeze. Throws Error(usage) for a
/// pattern that matches none, and if nothing is left to train.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const std::vector<nn::Parameter>& parameters);

/// Labels with this value are ignored.
inline constexpr int64_t ignored_target = -100;

/// A model's results for a batch, not computed yet.
struct Forward {
  Tensor loss;     // f32: the mean over all targets that count
  Tensor correct;  // i64: how many of them the model predicts; or f32, the sum of their Quality
  /// In a test, the input of the task's tally: for classes f32 [N, C], a score for each class of each
  /// example. Otherwise undefined.
  Tensor scores = {};
};

/// Returns the loss of a batch: Task::forward(), or your own function.
using LossFunction = std::function<Forward(nn::Module& model, const Tensor& inputs, const Tensor& targets)>;

/// Cross-entropy of the model's logits [N, C] for labels i64[N], or for the probabilities of classes, f32[N,
/// C]. Includes the loss of nn::AuxiliaryLogits if the model has them.
Forward classify(nn::Module& model, const Tensor& inputs, const Tensor& labels, double label_smoothing = 0);

struct StepOptions {
  LossFunction loss = {};  // none: classify()
  double clip_norm = 0;    // 0: no clipping
  Precision precision = Precision::f32;
  optim::GradScaler* scaler = nullptr;  // for f16
};

/// The results of a step, not computed yet. `loss.item()` runs the whole step as one plan: forward, backward
/// and update.
struct PendingStep {
  Tensor loss;  // as in Forward
  Tensor correct;
  // With a scaler:
  Tensor loss_scale = {};  // f32: what the loss was multiplied by
  Tensor skipped = {};     // i64: how many steps were skipped so far, this one among them
};

/// A batch in a device's memory, or a part of one.
struct BatchPart {
  Tensor inputs, targets;
  int64_t counted = 0;  // targets that count
};

/// Extends the graph by one step of `optimizer` on a batch.
PendingStep training_step(nn::Module& model, optim::Optimizer& optimizer, const Tensor& inputs,
                          const Tensor& targets, const StepOptions& options = {});
/// The same for a batch in parts (gradient accumulation): gradients are summed up part by part, and the
/// update comes after the last part. All parts except the last are computed here, so that the activations of
/// only one part are in memory at a time. Loss, gradients and update are those of the whole batch, to
/// rounding. Batch norm's statistics are those of a part (its running averages change once for each part),
/// and dropout draws other random numbers.
PendingStep training_step(nn::Module& model, optim::Optimizer& optimizer, const std::vector<BatchPart>& parts,
                          const StepOptions& options = {});

}  // namespace athanor
