#include "athanor/optim/grad_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "athanor/base/error.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/reduction.h"

namespace athanor::optim {
namespace {

constexpr const char *scale_name = "scale", *tracker_name = "growth_tracker", *skipped_name = "skipped";
constexpr double infinite = std::numeric_limits<double>::infinity();

Tensor wide(const Tensor& x) { return x.dtype() == DType::f64 ? x : cast(x, DType::f32); }

const std::shared_ptr<GradSlot>& slot_of(const nn::Parameter& parameter) {
  return parameter.value().node()->slot;
}

std::string name_of(const nn::Parameter& parameter) {
  return parameter.name().empty() ? "" : fmt::format(": of '{}'", parameter.name());
}

// Whether one of the flags is set. Often many of them are the same tensor.
Tensor any_of(const std::vector<Tensor>& flags) {
  Tensor all;
  std::unordered_set<const Node*> seen;
  for (const Tensor& flag : flags)
    if (seen.insert(flag.node().get()).second) all = all.defined() ? all | flag : flag;
  return all;
}

}  // namespace

GradScaler::GradScaler(Device device, const GradScalerOptions& options)
    : options_(options),
      scale_(Tensor::scalar(options.initial_scale, DType::f32, device)),
      tracker_(Tensor::scalar(int64_t{0}, DType::i64, device)),
      skipped_(Tensor::scalar(int64_t{0}, DType::i64, device)) {
  const auto finite = [](double x) { return x > 0 && std::isfinite(x); };
  if (!finite(options.initial_scale) || !finite(options.growth) || options.growth <= 1 ||
      !finite(options.back_off) || options.back_off >= 1 || options.growth_interval < 1)
    throw Error(ErrorCode::value,
                fmt::format("a loss scale from {} on, that grows by {} after {} steps and shrinks by {}",
                            options.initial_scale, options.growth, options.growth_interval, options.back_off),
                {}, "It must be positive, grow by more than 1, and shrink by less than 1");
}

Tensor GradScaler::scale(const Tensor& loss, std::source_location where) const {
  const SourceScope scope(where);
  const Autocast exact(Precision::f32);
  return wide(loss) * scale_.to(loss.device());
}

void GradScaler::unscale(const std::vector<nn::Parameter>& parameters, std::source_location where) {
  const SourceScope scope(where);
  const Autocast exact(Precision::f32);
  const NoGrad off;
  for (const auto& parameter : parameters)
    if (unscaled_.contains(slot_of(parameter)))
      throw Error(ErrorCode::usage,
                  fmt::format("unscale() of gradients that were unscaled in this step{}", name_of(parameter)),
                  to_string(where), "Call it once between backward() and step(), and update() after step()");
  // The largest of all gradients; NaN if there is one.
  Tensor largest;
  std::vector<std::shared_ptr<GradSlot>> slots;
  const Tensor inverse = 1 / scale_;
  for (const auto& parameter : parameters) {
    const Tensor& gradient = parameter.grad();
    if (!gradient.defined() || gradient.size() == 0) continue;
    const Tensor value = wide(gradient), own = cast(max(abs(value)), DType::f32).to(scale_.device());
    largest = largest.defined() ? maximum(largest, own) : own;
    parameter.set_grad(cast(value * inverse.to(gradient.device()), gradient.dtype()));
    slots.push_back(slot_of(parameter));
  }
  overflows_.push_back(largest.defined() ? !less(largest, infinite) : less(scale_, 0));
  for (const auto& slot : slots) unscaled_.emplace(slot, overflows_.back());
}

void GradScaler::step(Optimizer& optimizer, std::source_location where) {
  const SourceScope scope(where);
  if (stepped_.contains(&optimizer))
    throw Error(ErrorCode::usage, "a second step() of an optimizer before the loss scale's update()",
                to_string(where), "Call scaler.update() once, after the steps of all optimizers");
  std::vector<nn::Parameter> rest;
  std::vector<Tensor> overflows;
  for (const auto& parameter : optimizer.parameters()) {
    if (const auto found = unscaled_.find(slot_of(parameter)); found != unscaled_.end())
      overflows.push_back(found->second);
    else if (parameter.grad().defined())
      rest.push_back(parameter);
  }
  if (!rest.empty() || overflows.empty()) {
    unscale(rest, where);
    overflows.push_back(overflows_.back());
  }
  optimizer.step({.skip = any_of(overflows)}, where);
  stepped_.insert(&optimizer);
}

void GradScaler::update(std::source_location where) {
  const SourceScope scope(where);
  const NoGrad off;
  if (stepped_.empty())
    throw Error(ErrorCode::usage, "update() of a loss scale without a step()", to_string(where),
                "Call scaler.step(optimizer) first");
  const Tensor in_row = tracker_ + 1, due = equal(in_row, options_.growth_interval);
  const Tensor overflow = any_of(overflows_);
  // The scale does not grow to infinity.
  const Tensor grown = scale_ * options_.growth;
  const Tensor kept = athanor::where(due & less(grown, infinite), grown, scale_);
  scale_ = athanor::where(overflow, scale_ * options_.back_off, kept);
  tracker_ = athanor::where(overflow | due, 0, in_row);
  skipped_ = skipped_ + cast(overflow, DType::i64);
  start_anew();
}

void GradScaler::start_anew() {
  unscaled_.clear();
  overflows_.clear();
  stepped_.clear();
}

std::vector<std::pair<std::string, Tensor>> GradScaler::named_state() const {
  return {{scale_name, scale_}, {tracker_name, tracker_}, {skipped_name, skipped_}};
}

nn::StateDict GradScaler::state_dict() const { return nn::to_state_dict(named_state()); }

void GradScaler::load_state_dict(const nn::StateDict& state) {
  std::vector<std::pair<std::string, TensorType>> wanted;
  for (const auto& [name, tensor] : named_state()) wanted.emplace_back(name, tensor.type());
  auto values = nn::from_state_dict(state, wanted, "the loss scale");
  const double scale = values[0].item();
  if (!(scale > 0) || !std::isfinite(scale) || values[1].item() < 0 || values[2].item() < 0)
    throw Error(ErrorCode::value, fmt::format("a loss scale of {}", scale));
  scale_ = std::move(values[0]);
  tracker_ = std::move(values[1]);
  skipped_ = std::move(values[2]);
}

std::vector<nn::ValueMark> GradScaler::mark() const {
  return {nn::ValueMark(scale_), nn::ValueMark(tracker_), nn::ValueMark(skipped_)};
}

bool GradScaler::go_back(const std::vector<nn::ValueMark>& mark) {
  std::vector<Tensor> values;
  for (const nn::ValueMark& value : mark) values.push_back(value.value());
  if (!std::ranges::all_of(values, &Tensor::defined)) return false;
  scale_ = std::move(values[0]);
  tracker_ = std::move(values[1]);
  skipped_ = std::move(values[2]);
  start_anew();
  return true;
}

}  // namespace athanor::optim
