#include "athanor/kernels/guess.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/os/interrupt.h"
#include "athanor/kernels/alike.h"
#include "athanor/kernels/contest.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/trial_memory.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"

namespace athanor {
namespace {

// Names what was checked: a kernel's text, with this driver and this version.
std::string check_key(Device device, const KernelRequest& request, const Candidate& candidate) {
  return fmt::format("guess|{}|{}|{}|{}", examination_key(device), request.key(), candidate.name,
                     fingerprint({candidate}));
}

bool needs_check(Device device, const KernelRequest& request, const Candidate& candidate) {
  return device != Device{} && !provider_of(device).hidden() &&
         fits_trial(device, request, {&candidate, 1}) &&
         !KernelCache::instance().is_checked(check_key(device, request, candidate));
}

// The first candidate that has not ended the program before.
size_t first_unmarked(const std::string& key, const std::vector<Candidate>& candidates) {
  const auto found = std::ranges::find_if(candidates, [&](const Candidate& candidate) {
    return !KernelCache::instance().is_marked(key, candidate.name);
  });
  return found == candidates.end() ? 0 : static_cast<size_t>(found - candidates.begin());
}

Choice fresh_guess(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
                   const std::string& key) {
  const auto usable = [&](size_t i) {
    return i < candidates.size() && !KernelCache::instance().is_marked(key, candidates[i].name);
  };
  if (const auto neighbour = nearest_neighbour(device, request, candidates);
      neighbour && usable(neighbour->candidate))
    return {neighbour->candidate, fmt::format("as for {}", shapes_in(neighbour->key)), {}};
  for (const auto& [other, winner] :
       KernelCache::instance().find_elsewhere(info_of(device).name, request.key()))
    if (const size_t i = place_of(candidates, winner.name); winner.disturbed == 0 && usable(i))
      return {i, "as on this device with another driver", {}};
  return {first_unmarked(key, candidates), "best guess", {}};
}

}  // namespace

std::string shapes_in(const std::string& key) {
  std::string shapes;
  const size_t last = key.find(" ->");
  for (size_t begin = key.find('[', key.rfind('|')); begin < last;) {
    const size_t end = key.find(']', begin);
    shapes += (shapes.empty() ? "" : " ") + key.substr(begin, end - begin + 1);
    begin = key.find('[', end);
  }
  return shapes;
}

std::optional<Neighbour> nearest_neighbour(Device device, const KernelRequest& request,
                                           const std::vector<Candidate>& candidates) {
  const double work = work_of(request).amount();
  std::optional<Neighbour> nearest;
  double least = 0;
  size_t alike = 0;
  for (auto& [key, winner] :
       KernelCache::instance().find_alike(environment_key(device) + "|" + bucket_of(request))) {
    const size_t place = place_of(candidates, winner.name);
    if (place == candidates.size()) continue;
    ++alike;
    const double ratio = winner.work > 0 ? work / winner.work : 1;
    const double distance = std::abs(std::log(std::max(ratio, 1e-9)));
    if (nearest && distance >= least) continue;
    least = distance;
    nearest = {.key = key, .winner = winner, .candidate = place, .seconds = winner.seconds * ratio};
  }
  if (nearest) nearest->alike = alike;
  return nearest;
}

bool is_worth_timing(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
                     const std::optional<Neighbour>& neighbour) {
  const Work work = work_of(request);
  return worth_timing(
      {.seconds = neighbour ? neighbour->seconds : 0,
       .least_seconds =
           KernelCache::instance().find_peak(environment_key(device)).least_seconds(work.flops, work.bytes),
       .candidates = candidates.size(),
       .alike = neighbour ? neighbour->alike : 0,
       .compiles = candidates.front().kernel && candidates.front().kernel->generated() != nullptr});
}

Choice guess(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates) {
  const std::string key = problem_key(device, request), among = fingerprint(candidates);
  TuningCache& cache = TuningCache::instance();
  Choice choice;
  auto winner = cache.find(key, among, true);
  const size_t place = winner ? place_of(candidates, winner->name) : candidates.size();
  if (place < candidates.size()) {
    choice.index = place;
    if (cache.is_restored(key))
      choice.why = "as earlier in the run";
    else if (cache.taken(key) == Taken::spared)
      choice.why = "little scratch memory, for the memory limit";
    else if (cache.taken(key) == Taken::guess)
      choice.why = "best guess";
    else if (winner->times.empty())
      choice.why = "remembered from a problem that is alike";
    else
      choice.why = fmt::format("remembered as the fastest of {}", candidates.size());
    choice.measured = std::move(winner->times);
    choice.unchecked = cache.taken(key) == Taken::guess && needs_check(device, request, candidates[place]);
    return choice;
  }
  choice = fresh_guess(device, request, candidates, key);
  choice.unchecked = needs_check(device, request, candidates[choice.index]);
  cache.take(key, {.name = candidates[choice.index].name, .candidates = among}, Taken::guess);
  return choice;
}

void take_spared(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
                 Choice& choice) {
  const Candidate& spared = candidates[choice.index];
  choice.unchecked = needs_check(device, request, spared);
  TuningCache::instance().take(problem_key(device, request),
                               {.name = spared.name, .candidates = fingerprint(candidates)}, Taken::spared);
}

void check_guess(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
                 Choice& choice) {
  std::vector<size_t> order{choice.index};
  for (size_t i = 0; i < candidates.size(); ++i)
    if (i != choice.index) order.push_back(i);
  const std::unique_lock turn(timing_turn());
  Contest contest(device, request, candidates);
  for (const size_t i : order) {
    throw_if_interrupted();
    if (!contest.is_right(i)) continue;
    KernelCache::instance().store_checked(check_key(device, request, candidates[i]));
    if (i != choice.index) {
      choice = {i, "best guess: those before it are wrong or cannot run", {}, contest.dropped()};
      TuningCache::instance().take(problem_key(device, request),
                                   {.name = candidates[i].name, .candidates = fingerprint(candidates)},
                                   Taken::guess);
    }
    choice.unchecked = false;
    return;
  }
  contest.finish();  // throws, and says why none is right
}

bool is_open(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates) {
  if (candidates.size() <= 1 || request.output().shape.size() == 0 ||
      !fits_trial(device, request, candidates))
    return false;
  const std::string key = problem_key(device, request);
  if (TuningCache::instance().has_timed(key) || TuningCache::instance().taken(key) == Taken::spared)
    return false;
  const auto winner = KernelCache::instance().find_winner(key);
  if (winner && winner->candidates == fingerprint(candidates) && !winner->times.empty() &&
      place_of(candidates, winner->name) < candidates.size())
    return winner->disturbed > 0 && winner->disturbed < most_disturbed && TuningCache::instance().is_quiet();
  return is_worth_timing(device, request, candidates, nearest_neighbour(device, request, candidates));
}

}  // namespace athanor
