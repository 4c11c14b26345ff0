#include "athanor/train/training_step.h"

#include <optional>
#include <utility>

#include "athanor/base/os/interrupt.h"
#include "athanor/nn/auxiliary.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/reduction.h"
#include "athanor/optim/clip.h"
#include "athanor/train/param_groups.h"

namespace athanor {

namespace {

/// `labels`: classes or, if images are mixed, their probabilities.
Tensor classification_loss(const Tensor& logits, const Tensor& labels, double smoothing) {
  if (labels.dtype() != DType::f32)
    return cross_entropy(logits, labels, {.label_smoothing = smoothing, .ignore_index = ignored_target});
  const Tensor wanted = labels * (1 - smoothing) + smoothing / static_cast<double>(logits.shape()[1]);
  return -mean(sum(wanted * log_softmax(logits, 1), {1}));
}

}  // namespace

// In training the logits' handle ends here, so that they need not live longer than the plan.
Forward classify(nn::Module& model, const Tensor& inputs, const Tensor& labels, double label_smoothing) {
  const Tensor logits = model(inputs);
  const Tensor wanted = labels.dtype() == DType::f32 ? argmax(labels, 1) : labels;
  Tensor loss = classification_loss(logits, labels, label_smoothing);
  if (auto* second = dynamic_cast<nn::AuxiliaryLogits*>(&model))
    if (const Tensor auxiliary = second->take_auxiliary(); auxiliary.defined())
      loss = loss + second->auxiliary_weight() * classification_loss(auxiliary, labels, label_smoothing);
  return {.loss = loss,
          .correct = sum(equal(argmax(logits.detach(), 1), wanted)),
          .scores = model.training() ? Tensor() : cast(logits.detach(), DType::f32)};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const std::vector<nn::Parameter>& parameters) {
  return optim::make_optimizer(config.optimizer, param_groups(config, parameters),
                               {.lr = config.learning_rate(),
                                .weight_decay = config.weight_decay,
                                .momentum = config.momentum,
                                .nesterov = config.momentum > 0});
}

namespace {

/// The share of a part in the mean over its batch; undefined for a whole batch. An input of plans: parts with
/// more or fewer targets run the same plan.
Tensor share_of(const BatchPart& part, int64_t counted) {
  if (part.counted == counted) return {};
  return Tensor::scalar(static_cast<double>(part.counted) / static_cast<double>(counted), DType::f32,
                        part.targets.device());
}

void add(Tensor& sum, const Tensor& more) {
  const NoGrad off;
  sum = sum.defined() ? sum + more : more;
}

}  // namespace

PendingStep training_step(nn::Module& model, optim::Optimizer& optimizer, const Tensor& inputs,
                          const Tensor& targets, const StepOptions& options) {
  const std::vector<BatchPart> whole{BatchPart{inputs, targets}};
  return training_step(model, optimizer, whole, options);
}

PendingStep training_step(nn::Module& model, optim::Optimizer& optimizer, const std::vector<BatchPart>& parts,
                          const StepOptions& options) {
  static const PartName name = std::make_shared<const std::string>("training step");
  const PartScope unless_a_module_made_it(name);
  const std::vector<nn::Parameter> trained = optimizer.parameters();
  optim::GradScaler* scaler = options.scaler;
  PendingStep step;
  std::optional<FinishScope> finish;  // running averages have moved
  int64_t counted = 0;
  for (const BatchPart& part : parts) counted += part.counted;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (p > 0) {
      eval({step.loss});  // and the gradients so far
      finish.emplace();
    }
    Forward forward = [&] {
      const Autocast scope(options.precision);
      return options.loss ? options.loss(model, parts[p].inputs, parts[p].targets)
                          : classify(model, parts[p].inputs, parts[p].targets);
    }();
    const Tensor share = share_of(parts[p], counted);
    const Tensor loss = share.defined() ? forward.loss * cast(share, forward.loss.dtype()) : forward.loss;
    (scaler != nullptr ? scaler->scale(loss) : loss).backward();
    keep_gradients_of(trained, model);
    add(step.loss, loss);
    add(step.correct, forward.correct);
  }
  if (scaler != nullptr) {
    step.loss_scale = scaler->scale();
    scaler->unscale(trained);
  }
  if (options.clip_norm > 0) optim::clip_grad_norm(trained, options.clip_norm);
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
