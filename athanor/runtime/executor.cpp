#include "athanor/runtime/executor.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>

#include "athanor/base/error.h"
#include "athanor/graph/host_array.h"

namespace athanor {
namespace {

thread_local std::map<const Plan*, std::vector<StepTime>>* profile = nullptr;

// One arena a device and thread, as large as the largest plan needed: plans run one after another.
std::byte* arena(Device device, int64_t bytes) {
  thread_local std::map<Device, std::shared_ptr<Storage>> arenas;
  auto& storage = arenas[device];
  if (!storage || static_cast<int64_t>(storage->bytes()) < bytes) {
    storage = nullptr;  // released first, so that both never exist together
    storage = allocate(device, static_cast<size_t>(bytes));
  }
  return static_cast<std::byte*>(storage->address());
}

class Run {
 public:
  Run(const Plan& plan, std::span<const std::shared_ptr<Storage>> inputs) : plan_(plan), addresses_(plan.values.size()) {
    std::byte* base = plan.arena_bytes > 0 ? arena(plan.device, plan.arena_bytes) : nullptr;
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      addresses_[static_cast<size_t>(plan.inputs[i])] = static_cast<std::byte*>(inputs[i]->address());
    for (const int v : plan.outputs) {
      const PlanValue& value = plan.values[static_cast<size_t>(v)];
      outputs_.push_back(value.in_place_of >= 0
                             ? inputs[static_cast<size_t>(plan.values[static_cast<size_t>(value.in_place_of)].binding)]
                             : allocate(plan.device, value.type.bytes()));
      addresses_[static_cast<size_t>(v)] = static_cast<std::byte*>(outputs_.back()->address());
    }
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].kind == PlanValue::Kind::temporary && plan.values[v].offset >= 0)
        addresses_[v] = base + plan.values[v].offset;
    arena_ = base;
  }

  void step(const PlanStep& step) {
    buffers_.clear();
    for (const auto& ref : step.buffers) buffers_.push_back(addresses_[static_cast<size_t>(ref.value)] + ref.byte_offset);
    buffers_.push_back(step.scratch_offset >= 0 ? arena_ + step.scratch_offset : nullptr);
    step.kernel.kernel->run(buffers_);
  }

  // The first non-finite element of what a step wrote, as text; "" when all are finite.
  std::string non_finite(const PlanStep& step, const std::vector<int>& values) const {
    for (int v : values) {
      const TensorType& type = plan_.values[static_cast<size_t>(v)].type;
      if (!is_float(type.dtype)) continue;
      HostArray host(type.dtype, type.shape);
      std::copy_n(addresses_[static_cast<size_t>(v)], host.bytes.size(), host.bytes.data());
      const auto numbers = to_doubles(host);
      for (size_t i = 0; i < numbers.size(); ++i)
        if (!std::isfinite(numbers[i]))
          return fmt::format("{} produced {} at element {} of {}", step.name(), std::isnan(numbers[i]) ? "NaN" : "infinity", i,
                             to_string(type));
    }
    return {};
  }

  std::vector<std::shared_ptr<Storage>> outputs() { return std::move(outputs_); }

 private:
  const Plan& plan_;
  std::vector<std::byte*> addresses_;
  std::vector<std::shared_ptr<Storage>> outputs_;
  std::vector<void*> buffers_;
  std::byte* arena_ = nullptr;
};

}  // namespace

std::vector<std::shared_ptr<Storage>> execute(const Plan& plan, std::span<const std::shared_ptr<Storage>> inputs,
                                              bool check_nan) {
  Run run(plan, inputs);
  std::vector<StepTime>* times = profile ? &(*profile)[&plan] : nullptr;
  if (times) times->resize(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const auto start = times ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    try {
      run.step(step);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("plan step {} ({}): {}", i, step.name(), error.problem()),
                  error.where().empty() ? step.where : error.where(), error.hint());
    }
    if (times) {
      (*times)[i].seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      ++(*times)[i].runs;
    }
    if (check_nan) {
      if (const std::string found = run.non_finite(step, step.writes); !found.empty())
        throw Error(ErrorCode::numeric, fmt::format("plan step {}: {}", i, found), step.where,
                    "Its inputs were finite. Lower the learning rate, clip gradients, or check the data");
    }
  }
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
