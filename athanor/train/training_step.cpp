#include "athanor/train/training_step.h"

#include <utility>

#include "athanor/ops/elementwise.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/reduction.h"
#include "athanor/optim/clip.h"

namespace athanor {

namespace {

/// Of labels, or where pictures are mixed of probabilities.
Tensor classification_loss(const Tensor& logits, const Tensor& labels, double smoothing) {
  if (labels.dtype() != DType::f32)
    return cross_entropy(logits, labels, {.label_smoothing = smoothing, .ignore_index = ignored_target});
  const Tensor wanted = labels * (1 - smoothing) + smoothing / static_cast<double>(logits.shape()[1]);
  return -mean(sum(wanted * log_softmax(logits, 1), {1}));
}

}  // namespace

// The logits' handle ends here, so that they need not live longer than the plan.
Forward classify(nn::Module& model, const Tensor& inputs, const Tensor& labels, double label_smoothing) {
  const Tensor logits = model(inputs);
  const Tensor wanted = labels.dtype() == DType::f32 ? argmax(labels, 1) : labels;
  return {classification_loss(logits, labels, label_smoothing),
          sum(equal(argmax(logits.detach(), 1), wanted))};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 std::vector<nn::Parameter> parameters) {
  return optim::make_optimizer(config.optimizer, std::move(parameters),
                               {.lr = config.learning_rate(),
                                .weight_decay = config.weight_decay,
                                .momentum = config.momentum,
                                .nesterov = config.momentum > 0});
}

PendingStep training_step(nn::Module& model, optim::Optimizer& optimizer, const Tensor& inputs,
                          const Tensor& targets, const StepOptions& options) {
  PendingStep step = [&]() -> PendingStep {
    const Autocast scope(options.precision);
    Forward forward = options.loss ? options.loss(model, inputs, targets) : classify(model, inputs, targets);
    return {std::move(forward.loss), std::move(forward.correct)};
  }();
  optim::GradScaler* scaler = options.scaler;
  if (scaler != nullptr) {
    step.loss_scale = scaler->scale();
    scaler->scale(step.loss).backward();
    scaler->unscale(model.parameters());
  } else {
    step.loss.backward();
  }
  if (options.clip_norm > 0) optim::clip_grad_norm(model.parameters(), options.clip_norm);
  if (scaler != nullptr) {
    scaler->step(optimizer);
    scaler->update();
    step.skipped = scaler->skipped();
  } else {
    optimizer.step();
  }
  return step;
}

}  // namespace athanor
