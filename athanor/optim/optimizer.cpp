#include "athanor/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/ops/elementwise.h"
#include "athanor/optim/adam.h"
#include "athanor/optim/sgd.h"

namespace athanor::optim {
namespace {

constexpr const char* step_name = "step";
constexpr const char* rate_name = "lr";
constexpr const char* skipped_steps_name = "skipped";

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

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, double lr, std::vector<std::string> state_names,
                     const std::vector<std::string>& scalar_names)
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
      for (size_t i = 0; i < scalar_names.size(); ++i)
        entry.state.push_back(Tensor::from(HostArray(DType::f32, {}), type.device));
      values.push_back(parameter);
      group.entries.push_back(std::move(entry));
    }
    groups_.push_back(std::move(group));
  }
  if (values.empty())
    throw Error(ErrorCode::value, "an optimizer was given no parameters", {}, "Pass model.parameters()");
  state_names_.insert(state_names_.end(), scalar_names.begin(), scalar_names.end());
  // Computes the initial values now, so that the first step's plan is the same as that of all later steps.
  athanor::eval(values);
}

void Optimizer::step(const StepGuard& guard, std::source_location where) {
  const SourceScope scope(where);
  const Autocast exact(Precision::f32);
  const NoGrad off;
  const auto unless_skipped = [&](const Tensor& old, Tensor fresh) {
    return guard.skip.defined() ? athanor::where(guard.skip.to(old.device()), old, fresh) : fresh;
  };
  const bool guarded = guard.skip.defined();
  Tensor skipped = skipped_;
  if (guarded)
    skipped = skipped.defined() ? skipped.to(guard.skip.device())
                                : Tensor::scalar(int64_t{0}, DType::i64, guard.skip.device());
  bool any = false;
  for (auto& group : groups_) {
    const Rates rates{lr_ * group.lr_factor, group.weight_decay.value_or(default_weight_decay()), steps_ + 1};
    NumberTensors number_tensors = skipped.defined()
                                       ? NumberTensors(numbers(rates, steps_made(skipped, rates.step)))
                                       : NumberTensors(numbers(rates));
    for (auto& [parameter, state, name] : group.entries) {
      const PartScope part(name);
      const Tensor gradient = parameter.take_grad();
      if (!gradient.defined()) continue;
      any = true;
      const Tensor& value = parameter.value();
      const Device home = state.empty() ? value.device() : state.front().device();
      for (Tensor& tensor : state) tensor = tensor.to(value.device());
      const std::vector<Tensor> before = state;
      const Tensor updated =
          update(value, gradient, state, number_tensors.on(value.type()), rates.weight_decay != 0);
      for (size_t i = 0; i < state.size(); ++i) state[i] = unless_skipped(before[i], state[i]).to(home);
      parameter.assign(unless_skipped(value, updated));
    }
  }
  if (!any)
    throw Error(ErrorCode::value, "step() of an optimizer without any gradient", to_string(where),
                "Call loss.backward() first; step() consumes gradients, so each needs its own backward()");
  ++steps_;
  skipped_ = guarded ? skipped + cast(guard.skip, DType::i64) : skipped;
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

std::vector<std::pair<std::string, Tensor>> Optimizer::named_state() const {
  std::vector<std::pair<std::string, Tensor>> found;
  for (const auto& group : groups_)
    for (const auto& [parameter, state, part] : group.entries) {
      if (parameter.name().empty() && !state.empty())
        throw Error(ErrorCode::name, "the state of an optimizer was requested, but a parameter has no name",
                    {}, "Register the parameter with a module: add_parameter(name, ...)");
      for (size_t i = 0; i < state.size(); ++i)
        found.emplace_back(parameter.name() + "." + state_names_[i], state[i]);
    }
  return found;
}

Optimizer::Mark Optimizer::mark() const {
  Mark mark{steps_, lr_, {}, {}};
  if (skipped_.defined()) mark.skipped.emplace(skipped_);
  for (const auto& group : groups_)
    for (const auto& entry : group.entries)
      for (const auto& tensor : entry.state) mark.state.emplace_back(tensor);
  return mark;
}

bool Optimizer::go_back(const Mark& mark) {
  std::vector<Tensor> values;
  for (const nn::ValueMark& value : mark.state) values.push_back(value.value());
  Tensor skipped = mark.skipped ? mark.skipped->value() : Tensor();
  if (!std::ranges::all_of(values, &Tensor::defined) || mark.skipped.has_value() != skipped.defined())
    return false;
  skipped_ = std::move(skipped);
  steps_ = mark.steps;
  lr_ = mark.lr;
  size_t next = 0;
  for (auto& group : groups_)
    for (auto& entry : group.entries)
      for (auto& tensor : entry.state) tensor = std::move(values[next++]);
  return true;
}

nn::StateDict Optimizer::state_dict() const {
  nn::StateDict state = nn::to_state_dict(named_state());
  state.emplace(step_name, HostArray::of<int64_t>({}, std::span(&steps_, 1)));
  state.emplace(rate_name, HostArray::of<double>({}, std::span(&lr_, 1)));
  if (skipped_.defined()) state.emplace(skipped_steps_name, skipped_.to_host());
  return state;
}

void Optimizer::load_state_dict(const nn::StateDict& state) {
  std::vector<std::pair<std::string, TensorType>> wanted{{step_name, {DType::i64, {}, {}}},
                                                         {rate_name, {DType::f64, {}, {}}}};
  for (const auto& [name, tensor] : named_state()) wanted.emplace_back(name, tensor.type());
  const bool guarded = state.contains(skipped_steps_name);
  if (guarded)
    wanted.emplace_back(skipped_steps_name,
                        TensorType{DType::i64, {}, parameters().front().value().device()});
  auto values = nn::from_state_dict(state, wanted, "the optimizer");
  const double steps = values[0].item(), lr = values[1].item();
  check_learning_rate(lr);
  const double skipped = guarded ? values.back().item() : 0;
  if (!(steps >= skipped && skipped >= 0))
    throw Error(ErrorCode::value,
                fmt::format("an optimizer's state after {} steps, {} of them skipped", steps, skipped));
  steps_ = static_cast<int64_t>(steps);
  lr_ = lr;
  skipped_ = guarded ? values.back() : Tensor();
  size_t next = 2;  // in the order of named_state()
  for (auto& group : groups_)
    for (auto& entry : group.entries)
      for (auto& tensor : entry.state) tensor = std::move(values[next++]);
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
