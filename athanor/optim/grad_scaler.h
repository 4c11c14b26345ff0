// Dynamic loss scaling: training with f16 without losing small gradients.
#pragma once
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "athanor/optim/optimizer.h"

namespace athanor::optim {

struct GradScalerOptions {
  double initial_scale = 65536;
  double growth = 2;               // the scale's factor after growth_interval steps
  int64_t growth_interval = 2000;  // steps in a row whose gradients were finite
  double back_off = 0.5;           // the scale's factor after a step with infinite gradients
};

/// Multiplies the loss so that gradients do not vanish in f16, and divides them again before the update. A
/// step whose gradients overflow is skipped. Like PyTorch's torch.amp.GradScaler. Micikevicius and others
/// (2018).
///
///     scaler.scale(loss).backward();
///     scaler.unscale(model.parameters());          // only if gradients are used, as for clipping
///     clip_grad_norm(model.parameters(), 1);
///     scaler.step(optimizer);
///     scaler.update();
///
/// All of this is part of the step's plan, so the host does not wait for the decision. A skipped step writes
/// the old values of parameters and optimizer state.
///
/// With several optimizers, each makes or skips its step according to its own gradients. Call update() once,
/// after the last step. It shrinks the scale if any gradient overflowed.
class GradScaler {
 public:
  /// The scale and its counters are kept on `device`. Throws Error(value) for options out of range.
  explicit GradScaler(Device device = {}, const GradScalerOptions& options = {});

  /// The loss times the scale; f32 unless the loss is f64.
  Tensor scale(const Tensor& loss, std::source_location where = std::source_location::current()) const;
  /// Divides gradients by the scale, in f32, and records whether one of them is infinite or NaN: then all
  /// optimizers with one of these parameters skip their step. Once per step and parameter: throws
  /// Error(usage) when called again before update(), even after the optimizer's step.
  void unscale(const std::vector<nn::Parameter>& parameters,
               std::source_location where = std::source_location::current());
  /// The optimizer's step, unless a gradient was infinite or NaN. First unscales the gradients that were not
  /// unscaled since update(). Throws Error(usage) when called again for this optimizer before update().
  void step(Optimizer& optimizer, std::source_location where = std::source_location::current());
  /// Shrinks the scale after a step that was skipped, and lets it grow after many that were not. Throws
  /// Error(usage) without a step() before.
  void update(std::source_location where = std::source_location::current());

  /// f32: the scale of the next step.
  const Tensor& scale() const { return scale_; }
  /// i64: how many steps were skipped so far, by one optimizer or more.
  const Tensor& skipped() const { return skipped_; }

  /// "scale" (f32), "growth_tracker" and "skipped" (i64).
  nn::StateDict state_dict() const;
  /// Throws Error(name|shape|value). After an error nothing has changed.
  void load_state_dict(const nn::StateDict& state);

  /// The present state, to restore it if a step is built but given up before it runs.
  std::vector<nn::ValueMark> mark() const;
  /// False when values are gone; then nothing was changed.
  bool go_back(const std::vector<nn::ValueMark>& mark);

 private:
  std::vector<std::pair<std::string, Tensor>> named_state() const;
  void start_anew();

  GradScalerOptions options_;
  Tensor scale_, tracker_, skipped_;
  // For the step under way:
  std::unordered_map<std::shared_ptr<GradSlot>, Tensor> unscaled_;  // bool: whether a gradient overflowed
  std::vector<Tensor> overflows_;                                   // the same, one for each unscale()
  std::unordered_set<const Optimizer*> stepped_;
};

}  // namespace athanor::optim
