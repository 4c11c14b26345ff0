#include "athanor/kernels/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/kernels/contest.h"
#include "athanor/kernels/guess.h"
#include "athanor/kernels/timing.h"
#include "athanor/kernels/trial_memory.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"

namespace athanor {
namespace {

// The winner of the nearest problem of the bucket; none if this problem is worth timing.
std::optional<Choice> choice_alike(Device device, const KernelRequest& request,
                                   const std::vector<Candidate>& candidates, const std::string& key) {
  const auto neighbour = nearest_neighbour(device, request, candidates);
  if (is_worth_timing(device, request, candidates, neighbour)) return std::nullopt;
  if (!neighbour) return Choice{0, "first of the list: too small to be timed", {}};
  const size_t index = neighbour->candidate;
  if (device != Device{} && !Contest(device, request, candidates).is_right(index)) return std::nullopt;
  if (neighbour->winner.disturbed == 0)  // the next process then takes the same
    KernelCache::instance().store_winner(
        key, {.name = candidates[index].name, .candidates = fingerprint(candidates)});
  return Choice{index, fmt::format("as for {}", shapes_in(neighbour->key)), {}};
}

// The candidates without a remembered time. Why they have none is not remembered.
std::vector<LeftOut> without_time(const std::vector<Candidate>& candidates,
                                  const KernelCache::Winner& winner) {
  std::vector<LeftOut> all;
  for (const Candidate& one : candidates)
    if (!winner.times.empty() && std::ranges::find(winner.times, one.name, [](const auto& timed) {
                                   return timed.first;
                                 }) == winner.times.end())
      all.push_back(
          {one.name, "was wrong, could not run or was not needed when the others were timed", true});
  return all;
}

// A provisional winner was found while the machine was busy, and is timed again when it is quiet.
bool is_provisional(const KernelCache::Winner& winner) {
  return winner.disturbed > 0 && winner.disturbed < most_disturbed;
}

std::string remembered_as(size_t candidates, bool provisional) {
  return fmt::format("remembered as the fastest of {}{}", candidates, provisional ? ", provisional" : "");
}

}  // namespace

Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              Choosing how, const TuningProgress& progress) {
  throw_if_interrupted();
  if (candidates.size() == 1) return {0, "only candidate", {}};
  if (request.output().shape.size() == 0) return {0, "empty", {}};
  if (how == Choosing::guess) return guess(device, request, candidates);
  const bool measure = how == Choosing::timed;
  const std::string key = problem_key(device, request);
  TuningCache& cache = TuningCache::instance();
  std::optional<KernelCache::Winner> winner;
  size_t remembered = candidates.size();
  // Whether nothing is left to be timed.
  const auto settled = [&] {
    winner = cache.find(key, fingerprint(candidates), measure);
    if (measure && cache.taken(key) == Taken::guess && !cache.is_restored(key)) winner.reset();
    remembered = winner ? place_of(candidates, winner->name) : candidates.size();
    if (remembered == candidates.size()) winner.reset();
    return winner && !(is_provisional(*winner) && cache.is_quiet());
  };
  bool known = settled();
  std::unique_lock turn(timing_turn(), std::defer_lock);
  if (!known && measure) {
    const int64_t timed = cache.timed();
    turn.lock();
    if (cache.timed() != timed) known = settled();  // another thread may have timed it
  }
  if (known) {
    auto untimed = without_time(candidates, *winner);
    return {remembered,
            cache.is_restored(key)              ? "as earlier in the run"
            : cache.taken(key) == Taken::spared ? "little scratch memory, for the memory limit"
            : winner->times.empty()             ? "remembered from a problem that is alike"
                                                : remembered_as(candidates.size(), is_provisional(*winner)),
            std::move(winner->times), std::move(untimed)};
  }
  if (!measure) return {0, "first of the list: tuning is off", {}};
  if (!winner)
    if (auto alike = choice_alike(device, request, candidates, key)) {
      cache.take(key, {.name = candidates[alike->index].name, .candidates = fingerprint(candidates)},
                 Taken::alike);
      return *alike;
    }
  if (!fits_trial(device, request, candidates)) {
    if (!winner) return {0, "first of the list: too large to be timed", {}};
    return {remembered, remembered_as(candidates.size(), true), std::move(winner->times)};
  }
  auto measured = Contest(device, request, candidates, winner).run(progress);
  if (!measured) {
    cache.found_busy();
    return {remembered, remembered_as(candidates.size(), true), std::move(winner->times)};
  }
  std::string why = fmt::format("fastest of {} by timing", measured->times.size());
  if (winner) why += ", again";
  if (measured->disturbed)
    why += measured->busy ? ", provisional (the machine was busy)" : ", provisional (samples differ)";
  if (measured->untried > 0) why += fmt::format("; near the roofline, {} not tried", measured->untried);
  return {.index = place_of(candidates, measured->winner),
          .why = std::move(why),
          .measured = std::move(measured->times),
          .dropped = std::move(measured->dropped),
          .timed = true};
}

// Two contests at once would disturb each other.
std::mutex& timing_turn() {
  static std::mutex mutex;
  return mutex;
}

std::string environment_key(Device device) { return environment_key(info_of(device)); }

std::string environment_key(const DeviceInfo& info) {
  std::string key = info.name;
  for (const std::string& name : info.environment)
    if (auto found = info.properties.find(name); found != info.properties.end())
      key += "|" + found->second.value;
  return key;
}

Measured measure(Device device, const KernelRequest& request) {
  require_examined(device);
  const auto candidates = backend_of(device).candidates(device.index, request);
  if (candidates.empty())
    throw Error(ErrorCode::device, fmt::format("{} has no kernel for {}", to_string(device), request.key()),
                {}, "It computes this op from primitives, among which there is nothing to choose.");
  const std::scoped_lock turn(timing_turn());
  return *Contest(device, request, candidates).run();
}

}  // namespace athanor
