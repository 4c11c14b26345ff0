#include "athanor/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/ops/elementwise.h"
#include "athanor/optim/adam.h"
#include "athanor/optim/sgd.h"

namespace athanor::optim {
namespace {

// The numbers of a step as tensors, one for each dtype and device of parameters: f64 for f64, f32 for all
// others.
class NumberTensors {
 public:
  explicit NumberTensors(std::vector<double> values) : values_(std::move(values)) {}
  explicit NumberTensors(Tensor computed) : computed_(std::move(computed)) {}
  const Tensor& on(const TensorType& type) {
    const DType dtype = type.dtype == DType::f64 ? DType::f64 : DType::f32;
    for (const Tensor& t : made_)
      if (t.dtype() == dtype && t.device() == type.device) return t;
    const Shape shape{static_cast<int64_t>(values_.size())};
    made_.push_back(computed_.defined() ? cast(computed_, dtype).to(type.device)
                                        : Tensor::from(from_doubles(dtype, shape, values_), type.device));
    return made_.back();
  }

 private:
  std::vector<double> values_;
  Tensor computed_;
  std::vector<Tensor> made_;
};

// The number of a step, without the skipped steps before it: f32.
Tensor steps_made(const Tensor& skipped, int64_t step) {
  return cast(Tensor::scalar(step, DType::i64, skipped.device()) - skipped, DType::f32);
}

}  // namespace

void check_learning_rate(double lr) {
  if (!(lr >= 0 && std::isfinite(lr)))
    throw Error(ErrorCode::value, fmt::format("a learning rate of {}", lr), {},
                "It must be finite and not negative");
}

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, double lr, std::vector<std::string> state_names)
    : state_names_(std::move(state_names)), lr_(lr) {
  check_learning_rate(lr);
  std::set<const void*> known;
  std::set<std::string> names;
  std::vector<Tensor> values;
  for (const auto& given : groups) {
    Group group{{}, given.lr_factor, given.weight_decay};
    for (const auto& parameter : given.parameters) {
      const std::string& name = parameter.name();
      if (!known.insert(parameter.value().node()->slot.get()).second)
        throw Error(ErrorCode::value, fmt::format("an optimizer was given '{}' twice", name));
      if (!name.empty() && !names.insert(name).second)
        throw Error(ErrorCode::value, fmt::format("an optimizer was given two parameters named '{}'", name),
                    {}, "Put their models together under one module, so that names differ");
      Entry entry{parameter, {}, std::make_shared<const std::string>(name)};
      const TensorType& type = parameter.value().type();
      for (size_t i = 0; i < state_names_.size(); ++i)
        entry.state.push_back(Tensor::from(HostArray(type.dtype, type.shape), type.device));
      values.push_back(parameter);
      group.entries.push_back(std::move(entry));
    }
    groups_.push_back(std::move(group));
  }
  if (values.empty())
    throw Error(ErrorCode::value, "an optimizer was given no parameters", {}, "Pass model.parameters()");
  // Computes the initial values now, so that the first step's plan is the same as that of all later steps.
  athanor::eval(values);
}

// Gives parameters a count of their own if they lack the gradient that others of their count have. Returns
// which counts go on in this step.
std::vector<bool> Optimizer::separate_counts() {
  std::vector<bool> goes_on(counts_.size(), false);
  goes_on.front() = true;
  for (const auto& group : groups_)
    for (const auto& entry : group.entries)
      if (entry.parameter.grad().defined()) goes_on[entry.count] = true;
  std::map<size_t, size_t> left;  // from a count that goes on to the new one of those that stay behind
  for (auto& group : groups_)
    for (auto& entry : group.entries) {
      if (entry.parameter.grad().defined() || !goes_on[entry.count]) continue;
      const auto [to, is_new] = left.try_emplace(entry.count, counts_.size());
      if (is_new) counts_.push_back(counts_[entry.count]);
      entry.count = to->second;
    }
  goes_on.resize(counts_.size(), false);
  return goes_on;
}

void Optimizer::step(const StepGuard& guard, std::source_location where) {
  const SourceScope scope(where);
  const Autocast exact(Precision::f32);
  const NoGrad off;
  const bool guarded = guard.skip.defined();
  const auto unless_skipped = [&](const Tensor& old, Tensor fresh) {
    return guarded ? athanor::where(guard.skip.to(old.device()), old, fresh) : fresh;
  };
  bool any = false;
  for (const auto& group : groups_)
    for (const auto& entry : group.entries) any = any || entry.parameter.grad().defined();
  if (!any)
    throw Error(ErrorCode::value, "step() of an optimizer without any gradient", to_string(where),
                "Call loss.backward() first; step() consumes gradients, so each needs its own backward()");
  const std::vector<bool> goes_on = separate_counts();
  if (guarded)
    for (Count& count : counts_)
      count.skipped = count.skipped.defined() ? count.skipped.to(guard.skip.device())
                                              : Tensor::scalar(int64_t{0}, DType::i64, guard.skip.device());
  for (auto& group : groups_) {
    std::map<size_t, NumberTensors> number_tensors;  // of each count
    const double weight_decay = group.weight_decay.value_or(default_weight_decay());
    for (auto& [parameter, state, name, count] : group.entries) {
      const PartScope part(name);
      const Tensor gradient = parameter.take_grad();
      if (!gradient.defined()) continue;
      const Tensor& skipped = counts_[count].skipped;
      auto found = number_tensors.find(count);
      if (found == number_tensors.end()) {
        const PartScope of_all({});
        const Rates rates{lr_ * group.lr_factor, weight_decay, counts_[count].steps + 1};
        found = number_tensors
                    .emplace(count, skipped.defined()
                                        ? NumberTensors(numbers(rates, steps_made(skipped, rates.step)))
                                        : NumberTensors(numbers(rates)))
                    .first;
      }
      const Tensor& value = parameter.value();
      const Device home = state.empty() ? value.device() : state.front().device();
      for (Tensor& tensor : state) tensor = tensor.to(value.device());
      const std::vector<Tensor> before = state;
      const Tensor updated =
          update(value, gradient, state, found->second.on(value.type()), weight_decay != 0);
      for (size_t i = 0; i < state.size(); ++i) state[i] = unless_skipped(before[i], state[i]).to(home);
      parameter.assign(unless_skipped(value, updated));
    }
  }
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (!goes_on[i]) continue;
    ++counts_[i].steps;
    if (guarded) counts_[i].skipped = counts_[i].skipped + cast(guard.skip, DType::i64);
  }
}

void Optimizer::offload_state() {
  for (auto& group : groups_)
    for (auto& entry : group.entries)
      for (Tensor& tensor : entry.state) tensor = Tensor::from(tensor.to_host());
}

std::vector<nn::Parameter> Optimizer::parameters() const {
  std::vector<nn::Parameter> all;
  for (const auto& group : groups_)
    for (const auto& entry : group.entries) all.push_back(entry.parameter);
  return all;
}

void Optimizer::zero_grad() const {
  for (const auto& group : groups_)
    for (const auto& entry : group.entries) entry.parameter.set_grad({});
}

void Optimizer::set_lr(double lr) {
  check_learning_rate(lr);
  lr_ = lr;
}

uint64_t Optimizer::state_bytes(std::optional<Device> of) const {
  uint64_t bytes = 0;
  for (const auto& group : groups_)
    for (const auto& entry : group.entries)
      for (const auto& tensor : entry.state)
        if (!of || tensor.type().device == *of) bytes += tensor.type().bytes();
  return bytes;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const std::vector<ParamGroup>& groups,
                                          const OptimizerOptions& o) {
  if (name == "sgd")
    return std::make_unique<Sgd>(groups, SgdOptions{.lr = o.lr,
                                                    .momentum = o.momentum,
                                                    .weight_decay = o.weight_decay.value_or(0),
                                                    .nesterov = o.nesterov});
  if (name == "adam")
    return std::make_unique<Adam>(groups,
                                  AdamOptions{o.lr, o.beta1, o.beta2, o.eps, o.weight_decay.value_or(0)});
  if (name == "adamw")
    return std::make_unique<AdamW>(
        groups,
        AdamWOptions{o.lr, o.beta1, o.beta2, o.eps, o.weight_decay.value_or(AdamWOptions{}.weight_decay)});
  const std::vector<std::string_view> names(optimizer_names().begin(), optimizer_names().end());
  throw Error(ErrorCode::name, fmt::format("unknown optimizer '{}'", name), {}, nearest_hint(name, names));
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw"};
  return names;
}

}  // namespace athanor::optim
