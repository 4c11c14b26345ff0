#include "athanor/runtime/executor.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/graph/host_array.h"
#include "athanor/runtime/host_op.h"

namespace athanor {
namespace {

thread_local std::map<const Plan*, std::vector<StepTime>>* profile = nullptr;

// One arena for each device and thread, as large as the largest plan needs. Plans run one after another.
const std::shared_ptr<Storage>& arena(Device device, int64_t bytes) {
  thread_local std::map<Device, std::shared_ptr<Storage>> arenas;
  auto& storage = arenas[device];
  if (!storage || static_cast<int64_t>(storage->bytes()) < bytes) {
    storage = nullptr;  // released first, so that both never exist at the same time
    storage = allocate(device, static_cast<size_t>(bytes));
  }
  return storage;
}

class Run {
 public:
  Run(const Plan& plan, std::span<const std::shared_ptr<Storage>> inputs)
      : plan_(plan), queue_(queue_of(plan.device)), places_(plan.values.size()) {
    if (plan.arena_bytes > 0) arena_ = arena(plan.device, plan.arena_bytes).get();
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      places_[static_cast<size_t>(plan.inputs[i])] = {inputs[i].get(), 0};
    for (const int v : plan.outputs) {
      const PlanValue& value = plan.values[static_cast<size_t>(v)];
      outputs_.push_back(
          value.in_place_of >= 0
              ? inputs[static_cast<size_t>(plan.values[static_cast<size_t>(value.in_place_of)].binding)]
              : allocate(plan.device, value.type.bytes()));
      places_[static_cast<size_t>(v)] = {outputs_.back().get(), 0};
    }
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].kind == PlanValue::Kind::temporary && plan.values[v].offset >= 0)
        places_[v] = {arena_, plan.values[v].offset};
  }

  void step(const PlanStep& step, const CommandSite& site) {
    buffers_.clear();
    for (const auto& ref : step.buffers) {
      const Binding& place = places_[static_cast<size_t>(ref.value)];
      buffers_.push_back({place.storage, place.offset + ref.byte_offset});
    }
    if (step.on_host) {
      const Binding output = buffers_.back();
      buffers_.pop_back();
      queue_.finish();
      run_on_host(*step.request, buffers_, output);
      queue_.wait(output.storage->ready());
      return;
    }
    buffers_.push_back(step.scratch_offset >= 0 ? Binding{arena_, step.scratch_offset} : Binding{});
    step.kernel.kernel->enqueue(queue_, buffers_, &site);
  }

  // The first non-finite element of what a step wrote, as text; "" when all are finite.
  std::string non_finite(const PlanStep& step, const std::vector<int>& values) const {
    for (int v : values) {
      const TensorType& type = plan_.values[static_cast<size_t>(v)].type;
      if (!is_float(type.dtype)) continue;
      HostArray host(type.dtype, type.shape);
      const Binding& place = places_[static_cast<size_t>(v)];
      queue_.finish();
      place.storage->read(host.bytes.data(), static_cast<size_t>(place.offset), host.bytes.size());
      const auto numbers = to_doubles(host);
      for (size_t i = 0; i < numbers.size(); ++i)
        if (!std::isfinite(numbers[i]))
          return fmt::format("{} produced {} at element {} of {}", step.name_and_parts(),
                             std::isnan(numbers[i]) ? "NaN" : "infinity", i, to_string(type));
    }
    return {};
  }

  /// The outputs, whose content is there when all that was launched has run.
  std::vector<std::shared_ptr<Storage>> outputs() {
    const std::shared_ptr<Event> done = queue_.record();
    for (const auto& output : outputs_) output->set_ready(done);
    return std::move(outputs_);
  }

 private:
  const Plan& plan_;
  Queue& queue_;
  std::vector<Binding> places_;  // of the plan's values
  std::vector<std::shared_ptr<Storage>> outputs_;
  std::vector<Binding> buffers_;
  Storage* arena_ = nullptr;
};

// Whether one of the first `begun` steps has written over an input: what it was to become must then be
// finished.
bool has_overwritten(const Plan& plan, size_t begun) {
  for (size_t s = 0; s < begun; ++s)
    for (const int written : plan.steps[s].writes) {
      const int input = plan.values[static_cast<size_t>(written)].in_place_of;
      if (input >= 0 && plan.values[static_cast<size_t>(input)].kind == PlanValue::Kind::input) return true;
    }
  return false;
}

// Leaves a plan when somebody asked to stop, between two steps and while all inputs are whole. Other devices
// than the host run behind the launches: a plan that takes long there is waited for step by step, so that it
// can be left. Which do is seen when they run for the first time.
class Leaving {
 public:
  explicit Leaving(const Plan& plan) : plan_(plan) {
    if (!interrupts_are_held()) return;
    const auto known = runs_long_.find(&plan);
    first_ = known == runs_long_.end();
    waits_ = plan.device != Device{} && (first_ || known->second);
  }

  void before(size_t step) const {
    if (!interrupts_are_held()) return;
    if (waits_ && step > 0) queue_of(plan_.device).finish();
    if (interrupt_signal() != 0 && !has_overwritten(plan_, step)) throw Interrupted();
  }

  void end() const {
    constexpr double long_run = 0.5;  // seconds
    constexpr size_t most = 1000;     // plans come and go, and this is only a hint
    if (!first_) return;
    if (runs_long_.size() >= most) runs_long_.clear();
    runs_long_[&plan_] = seconds_since(start_) > long_run;
  }

 private:
  inline static thread_local std::map<const Plan*, bool> runs_long_;
  const Plan& plan_;
  bool first_ = false, waits_ = false;
  Clock::time_point start_ = Clock::now();
};

class StepSite final : public CommandSite {
 public:
  StepSite(const PlanStep& step, size_t number) : step_(step), number_(number) {}
  std::string step() const override {
    return fmt::format("plan step {} ({})", number_, step_.name_and_parts());
  }
  std::string where() const override { return step_.where; }
  std::string label() const override { return fmt::format("{} {}", number_, step_.name()); }

 private:
  const PlanStep& step_;
  size_t number_;
};

}  // namespace

std::vector<std::shared_ptr<Storage>> execute(const Plan& plan,
                                              std::span<const std::shared_ptr<Storage>> inputs,
                                              bool check_nan, size_t& begun) {
  begun = 0;
  Run run(plan, inputs);
  std::vector<StepTime>* times = profile ? &(*profile)[&plan] : nullptr;
  if (times) times->resize(plan.steps.size());
  const Leaving leaving(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    leaving.before(i);
    const PlanStep& step = plan.steps[i];
    begun = i + 1;
    const auto start = times ? Clock::now() : Clock::time_point{};
    const StepSite site(step, i);
    try {
      run.step(step, site);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", site.step(), error.problem()),
                  error.where().empty() ? step.where : error.where(), error.hint());
    }
    if (times) {
      queue_of(step.device).finish();
      (*times)[i].seconds += seconds_since(start);
      ++(*times)[i].runs;
    }
    if (check_nan) {
      if (const std::string found = run.non_finite(step, step.writes); !found.empty())
        throw Error(ErrorCode::numeric, fmt::format("plan step {}: {}", i, found), step.where,
                    "Its inputs were finite. Lower the learning rate, clip gradients, or check the data");
    }
  }
  leaving.end();
  return run.outputs();
}

ScopedProfile::ScopedProfile() {
  static thread_local std::map<const Plan*, std::vector<StepTime>> times;
  times.clear();
  profile = &times;
}
ScopedProfile::~ScopedProfile() { profile = nullptr; }
const std::vector<StepTime>& ScopedProfile::times(const Plan& plan) const { return (*profile)[&plan]; }

}  // namespace athanor
