#include "athanor/train/learner.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/os/interrupt.h"
#include "athanor/compile/options.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/trace.h"
#include "athanor/ops/creation.h"
#include "athanor/runtime/eval_in_portions.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/initial_values.h"
#include "athanor/train/memory_scope.h"
#include "athanor/train/param_groups.h"
#include "athanor/train/test_set.h"

namespace athanor {

Uploaded batch_of_zeros(const Task& task, int64_t batch_size, int64_t parts, Device device) {
  const auto made = [&](const TensorType& type) {
    Tensor value = zeros(type.shape, type.dtype, device);
    value.eval();  // not part of the step
    return value;
  };
  const int64_t part = std::max<int64_t>(1, batch_size / parts);
  const TensorType targets = task.target_type(part);
  const int64_t counted = targets.dtype == DType::i64 ? targets.shape.size() : part;
  Uploaded batch{.parts = {}, .counted = parts * counted};
  for (int64_t p = 0; p < parts; ++p)
    batch.parts.push_back({made(task.input_type(part)), made(targets), counted});
  return batch;
}

Learner::Learner(const Task& task, const TrainConfig& config, Device device)
    : task_(task),
      config_(config),
      device_(device),
      precision_(parse_precision(config.precision)),
      model_(task.make_model()) {
  if (!config.init.empty()) init_note_ = load_initial_values(*model_, config.init);
  adapter_note_ = add_adapters(*model_, config);
  eval_in_portions();  // before the optimizer asks for all at once
  model_->to(device);
  optimizer_ = make_optimizer(config, model_->parameters());
  if (config.offload == "optimizer") {
    if (backend_of(device).has_unified_memory(device.index))
      offload_note_ = fmt::format("--offload has no effect: {} uses the host's memory", to_string(device));
    else
      optimizer_->offload_state();
  }
  if (config.precision == "f16") scaler_.emplace(device);
  if (config.ema > 0) average_.emplace(optimizer_->parameters(), config.ema);
  mark_.emplace(*model_, *optimizer_, scaler_ ? &*scaler_ : nullptr,
                average_ ? average_->variables() : std::vector<nn::Variable>());
}

int64_t Learner::trained_count() const {
  int64_t count = 0;
  for (const nn::Parameter& one : optimizer_->parameters()) count += one.size();
  return count;
}

PendingStep Learner::build(const std::vector<BatchPart>& parts) {
  const StepOptions options{.loss = [this](nn::Module& model, const Tensor& x,
                                           const Tensor& wanted) { return task_.forward(model, x, wanted); },
                            .clip_norm = config_.clip_norm,
                            .precision = precision_,
                            .scaler = scaler_ ? &*scaler_ : nullptr};
  const int64_t made = optimizer_->steps();
  std::optional<PlanLimitScope> of_first_parts;  // they are computed here
  if (const CompileOptions& now = compile_options(); parts.size() > 1 && now.memory_limit > 0)
    of_first_parts.emplace(now.memory_limit, now.memory_beside + bytes_beside_parts());
  PendingStep step = training_step(*model_, *optimizer_, parts, options);
  if (average_) average_->update(made);
  return step;
}

PendingStep Learner::step(const Uploaded& batch, double lr) {
  mark_->set();
  try {
    optimizer_->set_lr(lr);
    PendingStep pending = build(batch.parts);
    std::optional<FinishScope> finish;
    if (batch.parts.size() > 1) finish.emplace();  // earlier parts have been computed
    const TraceScope trace("launch");
    eval({pending.loss});
    return pending;
  } catch (const Interrupted&) {
    optimizer_->zero_grad();  // of parts that were computed
    whole_ = mark_->go_back();
    throw;
  }
}

std::shared_ptr<const Plan> Learner::plan_of_a_step(int64_t batch_size, int64_t parts) {
  const auto placeholder = [&](TensorType type) {
    type.device = device_;
    return Tensor::placeholder(type);
  };
  const int64_t part = std::max<int64_t>(1, batch_size / parts);
  mark_->set();
  // The plan of the last part adds to the gradients of the earlier parts.
  if (parts > 1)
    for (const auto& parameter : optimizer_->parameters())
      parameter.set_grad(placeholder(parameter.value().type()));
  try {
    // Held while the step is planned, as a real batch is, so that no result takes over its memory.
    const std::vector<BatchPart> last{
        {placeholder(task_.input_type(part)), placeholder(task_.target_type(part)), part}};
    const PendingStep pending = build(last);
    auto plan = plan_for({pending.loss});
    mark_->go_back();
    return plan;
  } catch (const Error&) {
    mark_->go_back();
    throw;
  }
}

TestResult Learner::test(int64_t batch_size, const std::function<bool(int64_t done)>& go_on) {
  const Autocast scope(precision_);
  const WeightAverage::Scope averaged(average_ ? &*average_ : nullptr);
  return test_model(*model_, device_, task_, batch_size, go_on);
}

std::string Learner::sample(int64_t tokens, uint64_t seed) {
  const Autocast scope(precision_);
  const WeightAverage::Scope averaged(average_ ? &*average_ : nullptr);
  return task_.sample(*model_, device_, tokens, seed);
}

nn::StateDict Learner::best_values() const {
  nn::StateDict values = model_->state_dict();
  if (average_)
    for (auto& [name, array] : average_->state_dict()) values[name] = std::move(array);
  return values;
}

// Only the last part's plan updates the optimizer's state and the averages.
int64_t Learner::bytes_beside_parts() const {
  uint64_t bytes = optimizer_->state_bytes(device_);
  if (average_)
    for (const auto& variable : average_->variables()) bytes += variable.value().type().bytes();
  return static_cast<int64_t>(bytes);
}

// Checkpoints replace one another: the last stays until the next is written.
uint64_t Learner::bytes() const {
  uint64_t bytes = optimizer_->state_bytes();
  for (const auto& parameter : model_->parameters()) bytes += parameter.value().type().bytes();
  if (average_) bytes *= 2;  // at most
  for (const auto& [name, buffer] : model_->named_buffers()) bytes += buffer.value().type().bytes();
  return bytes;
}

void Learner::store(Checkpoint& checkpoint) const {
  checkpoint.model = model_->state_dict();
  checkpoint.optimizer = optimizer_->state_dict();
  if (scaler_) checkpoint.scaler = scaler_->state_dict();
  if (average_) checkpoint.average = average_->state_dict();
}

void Learner::load(const Checkpoint& checkpoint) {
  model_->load_state_dict(checkpoint.model);
  optimizer_->load_state_dict(checkpoint.optimizer);
  if (scaler_) scaler_->load_state_dict(checkpoint.scaler);
  if (average_) average_->load_state_dict(checkpoint.average);
}

}  // namespace athanor
