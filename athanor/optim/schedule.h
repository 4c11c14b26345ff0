// Learning rates as functions of the step. The step number is the only state.
//
//     const auto rate = optim::warm_up(500, optim::cosine(0.1, steps - 500));
//     for (int64_t step = 0; step < steps; ++step) { optimizer.set_lr(rate(step)); ... }
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace athanor::optim {

/// Maps the number of steps made so far (0, 1, ...) to the rate of the next step. All factories throw
/// Error(value) for arguments out of range.
using Schedule = std::function<double(int64_t step)>;

Schedule constant(double lr);
/// lr gamma^floor(step / every). PyTorch's StepLR.
Schedule step_decay(double lr, int64_t every, double gamma = 0.1);
/// lr gamma^(milestones reached). PyTorch's MultiStepLR.
Schedule multi_step(double lr, std::vector<int64_t> milestones, double gamma = 0.1);
/// last + (lr - last) (1 + cos(pi step / steps)) / 2, then last. Loshchilov, Hutter (2017), without
/// restarts; PyTorch's CosineAnnealingLR up to `steps`.
Schedule cosine(double lr, int64_t steps, double last = 0);

struct OneCycle {
  double warm_share = 0.3;     // the share of steps on the way up
  double start_divisor = 25;   // starts at max_lr / start_divisor
  double final_divisor = 1e4;  // ends at max_lr / start_divisor / final_divisor
  bool linear = false;         // instead of along cosines
};
/// Rises to max_lr, then falls to almost nothing at step `steps - 1` and stays there. Smith, Topin (2018);
/// PyTorch's OneCycleLR.
Schedule one_cycle(double max_lr, int64_t steps, const OneCycle& options = {});

/// Rises linearly from start_factor * then(0) to then(0) over `steps` steps. After that it is `then`, which
/// counts from 0. PyTorch's LinearLR followed by another schedule in SequentialLR.
Schedule warm_up(int64_t steps, Schedule then, double start_factor = 0.01);

struct ScheduleOptions {
  double lr = 1e-3;
  int64_t total_steps = 0;    // steps of the whole run, including warm-up
  int64_t warm_up_steps = 0;  // not used with one-cycle, which has its own
  double gamma = 0.1;         // for "step"
  int64_t step_every = 0;     // for "step"; 0: a third of the run
};
/// "constant", "step", "cosine" or "one-cycle". Throws Error(name) with the nearest match.
Schedule make_schedule(const std::string& name, const ScheduleOptions& options);
const std::vector<std::string>& schedule_names();

}  // namespace athanor::optim
