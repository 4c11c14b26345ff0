#include "athanor/runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/graph/host_array.h"
#include "athanor/kernels/trace.h"
#include "athanor/memory/limit.h"
#include "athanor/runtime/leaving.h"
#include "athanor/runtime/step_site.h"
#include "athanor/runtime/thread_owned.h"

namespace athanor {
namespace {

// One arena for each device, as large as the largest plan needs: a thread's plans run one after another.
// `results`: bytes that the plan needs besides the arena. If a memory limit has no room for them, the arena
// gives back what this plan does not need.
struct Arenas {
  std::map<Device, std::shared_ptr<Storage>> of;
};
const std::shared_ptr<Storage>& arena(Device device, int64_t bytes, int64_t results) {
  auto& storage = owned_by_thread<Arenas>().of[device];
  const int64_t kept = storage ? static_cast<int64_t>(storage->bytes()) : 0;
  const bool crowded = kept > bytes && memory_left(device) < static_cast<uint64_t>(results);
  if (kept < bytes || crowded) {
    storage = nullptr;  // released first, so that both never exist at the same time
    if (bytes > 0) storage = allocate(device, static_cast<size_t>(bytes));
  }
  return storage;
}

// Waits until the queue has run everything, or never will.
void settle(Queue& queue) noexcept {
  try {
    if (const std::shared_ptr<Event> all = queue.record()) all->settle();
    return;
  } catch (const std::exception&) {
    // No event can be made.
  }
  try {
    queue.finish();
  } catch (const std::exception&) {
    // The device is lost, and runs nothing any more.
  }
}

// Once for each device.
void tell_not_captured(Device device, const std::string& why) {
  static std::mutex mutex;
  static std::set<Device> told;
  const std::scoped_lock lock(mutex);
  if (told.insert(device).second)
    fmt::print(
        stderr,
        "athanor: note: {} does not capture the launches of a plan ({}). They are given to it one by one "
        "in each run: the numbers are the same, but the host has more work.\n",
        to_string(device), why);
}

// The step that makes a value.
size_t step_that_writes(const Plan& plan, int value) {
  const auto found = std::ranges::find_if(
      plan.steps, [&](const PlanStep& step) { return std::ranges::count(step.writes, value) > 0; });
  return static_cast<size_t>(found - plan.steps.begin());
}

class Run {
 public:
  Run(const Plan& plan, std::span<const std::shared_ptr<Storage>> inputs)
      : plan_(plan), stretches_(plan.stretches()), inputs_(inputs), places_(plan.values.size()) {
    for (const PlanQueue& queue : plan.queues) queues_.push_back(&queue_of(queue.device, queue.kind));
    std::map<Device, int64_t> results;
    for (const int v : plan.outputs)
      if (const PlanValue& value = plan.values[static_cast<size_t>(v)]; value.in_place_of < 0)
        results[value.type.device] += static_cast<int64_t>(value.type.bytes());
    for (const Device device : plan.devices) arenas_[device] = arena_for(device, results[device]);
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      places_[static_cast<size_t>(plan.inputs[i])] = {inputs[i].get(), 0};
    for (const int v : plan.outputs) {
      const PlanValue& value = plan.values[static_cast<size_t>(v)];
      outputs_.push_back(
          value.in_place_of >= 0
              ? inputs[static_cast<size_t>(plan.values[static_cast<size_t>(value.in_place_of)].binding)]
              : output_for(v));
      places_[static_cast<size_t>(v)] = {outputs_.back().get(), 0};
    }
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].kind == PlanValue::Kind::temporary && plan.values[v].offset >= 0)
        places_[v] = {arenas_.at(plan.values[v].type.device), plan.values[v].offset};
  }

  // If an exception ends the plan, copies may be under way. The host waits for them, because their memory is
  // used again at once.
  ~Run() {
    if (!copies_) return;
    for (size_t q = 0; q < queues_.size(); ++q)
      if (copies(q)) settle(*queues_[q]);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Queues for copies must wait for the work that other queues were given before this plan.
  void begin_copies() {
    copies_ = true;
    for (size_t q = 0; q < queues_.size(); ++q)
      if (copies(q))
        for (const Device device : plan_.devices) queues_[q]->wait(queue_of(device).record());
    for (const auto& input : inputs_)
      if (input->ready() != nullptr && (plan_.devices.size() > 1 || input->device() == Device{}))
        for (size_t q = 0; q < queues_.size(); ++q)
          if (copies(q) || input->device() == Device{}) queues_[q]->wait(input->ready());
  }

  // Work after this plan must wait for its copies. The host need not: an event says when its memory has them.
  void end_copies() {
    for (size_t q = 0; q < queues_.size(); ++q)
      if (copies(q)) {
        const std::shared_ptr<Event> copied = queues_[q]->record();
        for (const Device device : plan_.devices)
          if (device != Device{}) queue_of(device).wait(copied);
      }
    copies_ = false;
  }

  void step(size_t s) {
    const StepSite site(plan_.steps[s], s);
    try {
      wait_for_others(s);
      give(plan_.steps[s], site);
      signal(s);
    } catch (const Error& error) {
      throw named(error, site);
    }
  }

  /// Whether a device can keep launches that follow one another and do not change from run to run.
  bool can_replay() const {
    return std::ranges::any_of(stretches_, [&](const auto& stretch) { return captures(stretch); });
  }

  /// If all stretches that can be captured were captured, runs the plan and gives each of these to its device
  /// in one call. Else runs nothing.
  bool replay(Replays& replays, size_t& begun) {
    replays.look(values_at());
    std::vector<Binding> bound = places_;
    for (size_t v = 0; v < places_.size(); ++v)
      if (replays.slot(v) >= 0)
        places_[v] = {replays.slots(plan_.values[v].type.device).get(), replays.slot(v)};
    const Replays::Captured* const captured = replays.find([&] { return capture(); });
    if (captured == nullptr) {
      places_ = std::move(bound);
      return false;
    }
    const auto copy_slots = [&](PlanValue::Kind kind, bool in) {
      for (size_t v = 0; v < places_.size(); ++v)
        if (plan_.values[v].kind == kind && replays.slot(v) >= 0)
          queue_of(plan_.values[v].type.device)
              .copy(in ? places_[v] : bound[v], in ? bound[v] : places_[v], plan_.values[v].type.bytes());
    };
    begun = plan_.steps.size();
    require_all();
    copy_slots(PlanValue::Kind::input, true);
    begin_copies();
    for (size_t i = 0; i < stretches_.size(); ++i) {
      const auto [first, end] = stretches_[i];
      if (Replay* const together = (*captured)[i].get()) {
        wait_for_others(first);
        together->run();
        signal(end - 1);
      } else {
        for (size_t s = first; s < end; ++s) step(s);
      }
    }
    end_copies();
    copy_slots(PlanValue::Kind::output, false);
    ++replays.runs;
    return true;
  }

  /// After a run that was to be captured: says so if a driver has refused. (If the device had failed, the run
  /// ended with an error that says more.)
  void tell_refusal() const {
    if (!refused_.second.empty()) tell_not_captured(refused_.first, refused_.second);
  }

  /// Waits until the step has run.
  void finish(const PlanStep& step) const { queue_for(step).finish(); }
  void finish() const {
    for (Queue* queue : queues_) queue->finish();
  }

  // The first non-finite element of what a step wrote, as text; "" when all are finite.
  std::string non_finite(const PlanStep& step) const {
    for (int v : step.writes) {
      const TensorType& type = plan_.values[static_cast<size_t>(v)].type;
      if (!is_float(type.dtype)) continue;
      HostArray host(type.dtype, type.shape);
      const Binding& place = places_[static_cast<size_t>(v)];
      finish(step);
      place.storage->read(host.bytes.data(), static_cast<size_t>(place.offset), host.bytes.size());
      const auto numbers = to_doubles(host);
      for (size_t i = 0; i < numbers.size(); ++i)
        if (!std::isfinite(numbers[i]))
          return fmt::format("{} produced {} at element {} of {}", step.name_and_parts(),
                             std::isnan(numbers[i]) ? "NaN" : "infinity", i, to_string(type));
    }
    return {};
  }

  /// The outputs. Their content is ready when everything in their device's queue has run. The host has run
  /// its own already; what a device copies to its memory has an event.
  std::vector<std::shared_ptr<Storage>> outputs() {
    std::map<Device, std::shared_ptr<Event>> done;
    for (const auto& output : outputs_) {
      if (output->device() == Device{}) continue;
      const auto [event, fresh] = done.emplace(output->device(), nullptr);
      if (fresh) event->second = queue_of(output->device()).record();
      output->set_ready(event->second);
    }
    return std::move(outputs_);
  }

 private:
  bool copies(size_t queue) const { return plan_.queues[queue].kind != QueueKind::kernels; }
  Queue& queue_for(const PlanStep& step) const { return *queues_[static_cast<size_t>(step.queue)]; }

  void wait_for_others(size_t s) {
    for (const int earlier : plan_.steps[s].waits) queue_for(plan_.steps[s]).wait(signals_.at(earlier));
  }
  void signal(size_t s) {
    if (plan_.steps[s].signals) signals_[static_cast<int>(s)] = queue_for(plan_.steps[s]).record();
  }

  void give(const PlanStep& step, const CommandSite& site) {
    Queue& queue = queue_for(step);
    buffers_.clear();
    for (const auto& ref : step.buffers) {
      const Binding& place = places_[static_cast<size_t>(ref.value)];
      buffers_.push_back({place.storage, place.offset + ref.byte_offset});
    }
    switch (step.kind) {
      case PlanStep::Kind::launch:
        buffers_.push_back(step.scratch_offset >= 0 ? Binding{arenas_.at(step.device), step.scratch_offset}
                                                    : Binding{});
        step.kernel.kernel->enqueue(queue, buffers_, &site);
        break;
      case PlanStep::Kind::copy:
        queue.copy(buffers_[1], buffers_[0],
                   plan_.values[static_cast<size_t>(step.buffers[0].value)].type.bytes());
        break;
    }
  }

  bool captures(const Plan::Stretch& stretch) const {
    return stretch.steps() > 1 && queue_for(plan_.steps[stretch.first]).captures();
  }

  // {} if a driver refuses.
  Replays::Captured capture() {
    require_all();
    Replays::Captured all;
    for (const Plan::Stretch& stretch : stretches_) {
      all.emplace_back();
      if (!captures(stretch)) continue;
      const auto give_all = [&] {
        for (size_t s = stretch.first; s < stretch.end; ++s)
          give(plan_.steps[s], StepSite(plan_.steps[s], s));
      };
      std::string why;
      all.back() = queue_for(plan_.steps[stretch.first]).capture(give_all, why);
      if (all.back() != nullptr) continue;
      refused_ = {plan_.steps[stretch.first].device, why};
      return {};
    }
    return all;
  }

  Storage* arena_for(Device device, int64_t results) const {
    const auto needed = std::ranges::find(plan_.arenas, device, &PlanArena::device);
    try {
      return arena(device, needed == plan_.arenas.end() ? 0 : needed->bytes, results).get();
    } catch (const Error& error) {
      const size_t s = fullest_step(plan_, device);
      throw named(error, StepSite(plan_.steps[s], s),
                  fmt::format(", where the plan needs most memory on {}", to_string(device)));
    }
  }

  std::shared_ptr<Storage> output_for(int v) const {
    const TensorType& type = plan_.values[static_cast<size_t>(v)].type;
    try {
      return allocate(type.device, type.bytes());
    } catch (const Error& error) {
      const size_t s = step_that_writes(plan_, v);
      if (s == plan_.steps.size()) throw;
      throw named(error, StepSite(plan_.steps[s], s), ", for its result");
    }
  }

  // For each value on a device that captures: its memory, and whether a slot may replace it. Then the arenas'
  // memory.
  std::vector<Replays::Where> values_at() const {
    std::vector<Replays::Where> all;
    for (size_t v = 0; v < places_.size(); ++v) {
      const PlanValue& value = plan_.values[v];
      if (places_[v].storage == nullptr || !queue_of(value.type.device).captures()) {
        all.emplace_back();
        continue;
      }
      const void* const memory = places_[v].storage->identity();
      const bool bound = value.kind != PlanValue::Kind::temporary && value.in_place_of < 0;
      all.push_back({memory, bound ? static_cast<int64_t>(value.type.bytes()) : 0});
    }
    for (const PlanArena& needed : plan_.arenas) {  // scratch memory is no value
      const Storage* const storage = arenas_.at(needed.device);
      const bool captured = storage != nullptr && queue_of(needed.device).captures();
      all.push_back({captured ? storage->identity() : nullptr, 0});
    }
    for (const PlanValue& value : plan_.values)  // a value that is updated in place stays where it is
      if (value.kind == PlanValue::Kind::output && value.in_place_of >= 0)
        all[static_cast<size_t>(value.in_place_of)].bytes = 0;
    return all;
  }

  void require_all() const {
    for (const Binding& place : places_)
      if (place.storage != nullptr)
        if (Queue& queue = queue_of(place.storage->device()); queue.captures()) queue.require(*place.storage);
  }

  const Plan& plan_;
  const std::vector<Plan::Stretch> stretches_;
  std::span<const std::shared_ptr<Storage>> inputs_;
  std::vector<Queue*> queues_;
  std::vector<Binding> places_;  // of the plan's values
  std::map<Device, Storage*> arenas_;
  std::vector<std::shared_ptr<Storage>> outputs_;
  std::vector<Binding> buffers_;
  std::map<int, std::shared_ptr<Event>> signals_;  // of steps that others wait for
  std::pair<Device, std::string> refused_;         // to capture, and why
  bool copies_ = false;                            // that no queue of a device waits for yet
};

}  // namespace

std::vector<std::shared_ptr<Storage>> execute(const Plan& plan,
                                              std::span<const std::shared_ptr<Storage>> inputs,
                                              const ExecuteOptions& options, PlanHistory& history,
                                              size_t& begun) {
  begun = 0;
  Run run(plan, inputs);
  std::vector<StepTime>* const times = options.times;
  if (times) times->resize(plan.steps.size());
  const Leaving leaving(plan, history.runs_long);
  const auto finish = [&] { run.finish(); };
  if (options.replay && run.can_replay() && !options.check_nan && times == nullptr && !leaving.waits() &&
      Trace::active() == nullptr) {
    leaving.before(0, finish);
    if (run.replay(history.replays, begun)) return run.outputs();
  }
  run.begin_copies();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    leaving.before(i, finish);
    const PlanStep& step = plan.steps[i];
    begun = i + 1;
    const auto start = times ? Clock::now() : Clock::time_point{};
    run.step(i);
    if (times) {
      run.finish(step);
      (*times)[i].seconds += seconds_since(start);
      ++(*times)[i].runs;
    }
    if (options.check_nan) {
      if (const std::string found = run.non_finite(step); !found.empty())
        throw Error(ErrorCode::numeric, fmt::format("plan step {}: {}", i, found), step.where,
                    "Its inputs were finite. Lower the learning rate, clip gradients, or check the data");
    }
  }
  leaving.end();
  run.end_copies();
  run.tell_refusal();
  return run.outputs();
}

void release_arenas() { owned_by_thread<Arenas>().of.clear(); }

}  // namespace athanor
