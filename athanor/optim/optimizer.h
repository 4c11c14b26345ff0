// What optimizers have in common.
#pragma once
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "athanor/nn/module.h"

namespace athanor::optim {

/// Throws Error(value) unless the rate is finite and not negative.
void check_learning_rate(double lr);

/// Parameters that are trained with the same options.
struct ParamGroup {
  std::vector<nn::Parameter> parameters;
  double lr_factor = 1;                     // times the optimizer's rate
  std::optional<double> weight_decay = {};  // instead of the optimizer's
};

/// Lets the device decide whether a step is skipped.
struct StepGuard {
  Tensor skip = {};  // bool; if true, parameters and state stay as they are. Undefined: the step is made
};

/// Moves parameters down their gradients.
///
///     loss.backward();
///     optimizer.step();
///     print(loss.item());  // runs forward, backward and update as one plan
///
/// step() only extends the graph. It CONSUMES the gradients: it takes them from the parameters, so that the
/// plan need not keep them in memory and the next backward() starts from nothing; zero_grad() is needed only
/// to drop unused gradients. To look at a gradient, keep a handle on it (parameter.grad()) before step().
///
/// Rates and all numbers that change from step to step are inputs of the plan, so that every step runs the
/// same plan. Parameters and state are updated in place.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient.
  void step(std::source_location where = std::source_location::current()) { step({}, where); }
  /// The same, unless the guard skips the step (GradScaler).
  void step(const StepGuard& guard, std::source_location where = std::source_location::current());
  /// Drops the gradients.
  void zero_grad() const;

  double lr() const { return lr_; }
  /// Sets the rate of the following steps; see schedule.h. Throws Error(value) unless it is finite and not
  /// negative.
  void set_lr(double lr);
  /// The number of steps made so far, including those that a guard skipped.
  int64_t steps() const { return counts_.front().steps; }

  /// From now on, keeps the parameters' state in host memory. Each step copies it to the parameter's
  /// device and back, as steps of the plan while its kernels run. Numbers stay the same.
  void offload_state();

  /// The parameters of all groups.
  std::vector<nn::Parameter> parameters() const;
  /// The bytes of the parameters' state, on one device or (none) on all.
  uint64_t state_bytes(std::optional<Device> of = {}) const;
  /// "step" (i64), "lr" (f64), after a step with a guard "skipped" (i64), and the state of each parameter:
  /// "fc1.weight.exp_avg". A parameter that had no gradient in some step has its own "fc1.weight.step" (i64),
  /// without skipped steps.
  nn::StateDict state_dict() const;
  /// Throws Error(name|shape) like Module::load_state_dict. After an error nothing has changed.
  void load_state_dict(const nn::StateDict& state);

  /// The present state, to restore it if a step is built but given up before it runs.
  struct Mark {
    struct Count {
      int64_t steps;
      std::optional<nn::ValueMark> skipped;
    };
    double lr = 0;
    std::vector<Count> counts = {};
    std::vector<size_t> count_of = {};  // each parameter
    std::vector<nn::ValueMark> state = {};
  };
  Mark mark() const;
  /// False when values are gone; then nothing was changed.
  bool go_back(const Mark& mark);

 protected:
  /// `state_names`: the state of each parameter, initially zeros of its type. Throws Error(value) if there
  /// are no parameters, if one is given twice, or if two have the same name.
  Optimizer(const std::vector<ParamGroup>& groups, double lr, std::vector<std::string> state_names);

  struct Rates {
    double lr, weight_decay;  // of the group
    int64_t step;             // 1, 2, ...: of the steps with a gradient of the parameter
  };
  /// The numbers that this step's update ops read besides tensors: one vector for a group's parameters with
  /// the same steps, an input of the plan.
  virtual std::vector<double> numbers(const Rates& rates) const = 0;
  /// The same if steps may have been skipped, so that the device counts: `step` (f32) leaves out skipped
  /// steps, and `rates.step` includes them. Returns as many numbers, f32.
  virtual Tensor numbers(const Rates& rates, const Tensor& step) const = 0;
  /// Returns the parameter's new value and replaces the elements of `state` by new ones. `decays`: its weight
  /// decay is not 0.
  virtual Tensor update(const Tensor& value, const Tensor& gradient, std::vector<Tensor>& state,
                        const Tensor& numbers, bool decays) const = 0;
  /// The weight decay of groups that do not set one.
  virtual double default_weight_decay() const = 0;

 private:
  struct Entry {
    nn::Parameter parameter;
    std::vector<Tensor> state;
    PartName name;     // the parameter's name, which the nodes of its update carry
    size_t count = 0;  // in counts_
  };
  /// The steps of parameters that had gradients in the same steps.
  struct Count {
    int64_t steps = 0;
    Tensor skipped =
        {};  // i64: how many of them guards skipped; undefined before the first step with a guard
  };
  struct Group {
    std::vector<Entry> entries;
    double lr_factor;
    std::optional<double> weight_decay;
  };
  std::vector<std::pair<std::string, Tensor>> named_state() const;
  std::vector<bool> separate_counts();

  std::vector<Group> groups_;
  std::vector<std::string> state_names_;
  double lr_;
  // The first counts all steps. Counts are only ever split, never joined, so that plans stay the same.
  std::vector<Count> counts_{{}};
};

/// All parameters as one group.
inline std::vector<ParamGroup> group(std::vector<nn::Parameter> parameters) {
  return {{.parameters = std::move(parameters)}};
}

struct OptimizerOptions {
  double lr = 1e-3;
  std::optional<double> weight_decay = {};        // none: the optimizer's own default
  double momentum = 0.9;                          // sgd
  bool nesterov = false;                          // sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam, adamw
};
/// "sgd", "adam" or "adamw". Throws Error(name) with the nearest match.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const std::vector<ParamGroup>& groups,
                                          const OptimizerOptions& options = {});
inline std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                                 std::vector<nn::Parameter> parameters,
                                                 const OptimizerOptions& options = {}) {
  return make_optimizer(name, group(std::move(parameters)), options);
}
const std::vector<std::string>& optimizer_names();

}  // namespace athanor::optim
