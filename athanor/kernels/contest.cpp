#include "athanor/kernels/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "athanor/base/os/interrupt.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/host_result.h"
#include "athanor/kernels/marked.h"
#include "athanor/kernels/trial_results.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/kernels/waiting.h"
#include "athanor/kernels/watchdog.h"

namespace athanor {
namespace {

// A candidate that takes this many times as long as the best so far is not timed further.
constexpr double hopeless = 2;
constexpr double no_limit = std::numeric_limits<double>::infinity();
// The share of the roofline's rate at which nothing better is looked for.
constexpr double near_roofline = 0.9;
// How many candidates take turns in the end, and in how many rounds. Long runs get fewer rounds: they are all
// disturbed alike, and cost more.
constexpr size_t most_finalists = 4;
constexpr int most_rounds = 5, least_rounds = 3;
constexpr double long_seconds = 20e-3;

}  // namespace

std::string problem_key(Device device, const KernelRequest& request) {
  return environment_key(device) + "|" + request.key();
}

std::string fingerprint(const std::vector<Candidate>& candidates) {
  std::vector<std::string> texts;
  for (const Candidate& candidate : candidates) {
    std::string& text = texts.emplace_back(candidate.name + '\n');
    if (const GpuCandidate* generated = candidate.kernel ? candidate.kernel->generated() : nullptr)
      for (const GpuLaunch& launch : generated->launches) text += launch.source;
  }
  std::ranges::sort(texts);
  std::string all;
  for (const std::string& text : texts) all += text;
  return KernelCache::hash(all);
}

size_t place_of(const std::vector<Candidate>& candidates, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(candidates, name, &Candidate::name) - candidates.begin());
}

Contest::Contest(Device device, KernelRequest request, std::vector<Candidate> candidates,
                 std::optional<KernelCache::Winner> before)
    : device_(device),
      request_(std::move(request)),
      candidates_(std::move(candidates)),
      before_(std::move(before)),
      environment_(environment_key(device)),
      key_(problem_key(device, request_)),
      work_(work_of(request_)) {
  const bool fewer = std::ranges::any_of(candidates_, &Candidate::fewer_products);
  least_seconds_ =
      KernelCache::instance().find_peak(environment_).least_seconds(fewer ? 0 : work_.flops, work_.bytes);
}

double Contest::best_seconds() const {
  double best = no_limit;
  for (const Entry& entry : entries_) best = std::min(best, entry.seconds);
  return best;
}

const Candidate* Contest::next() const {
  if (tried_ == candidates_.size() || near_roofline * best_seconds() < least_seconds_) return nullptr;
  return &candidates_[tried_];
}

Trial& Contest::trial() {
  if (!trial_) trial_ = std::make_unique<Trial>(device_, request_);
  return *trial_;
}

// On the host itself, the first candidate's result is the expected one.
void Contest::expect(size_t i) {
  if (std::exchange(expects_, true) || device_ == Device{}) return;
  queue_of(device_).finish();  // what failed before is no candidate's fault
  for (const Reference& other : references(device_, request_, candidates_, i)) {
    use_marked(other.candidate, [&] {
      expected_ = trial().result(other.candidate);
      reference_ = other;
    });
    if (!expected_.empty()) return;
  }
  expected_ = host_result(request_);
}

// If two candidates differ, the host's result decides which of them is wrong.
bool Contest::is_expected(size_t i, const TrialResults& result) {
  if (agree(expected_, result, request_)) return true;
  if (!reference_ || reference_->place == i) return false;
  const Reference reference = *std::exchange(reference_, std::nullopt);
  const Watchdog::Pause of_the_host;
  TrialResults host = host_result(request_);
  if (host.empty()) return false;
  std::swap(expected_, host);
  if (!agree(expected_, host, request_)) {
    result_.dropped.clear();
    if (only_check_)
      leave_out(reference.candidate, "its results are wrong");
    else
      entries_.clear(), tried_ = 0;  // the others were compared with it, and are tried again
  }
  return agree(expected_, result, request_);
}

void Contest::try_next() {
  const size_t i = tried_++;
  expect(i);
  if (is_left_out(i)) return;  // it failed when its result was wanted as the reference
  if (device_ == Device{}) return enter(i);
  use_marked(candidates_[i], [&] { enter(i); });
}

// Other devices have a clock and cores of their own.
bool Contest::is_busy() const { return info_of(device_).kind == "cpu" && load_.share() > busy_share; }

std::optional<Measured> Contest::run(const TuningProgress& progress) {
  while (next() != nullptr) {
    throw_if_interrupted();
    if (progress) progress(tried_ + 1, candidates_.size());
    tell_wait("timing kernels",
              fmt::format("{} of {} for {}", tried_ + 1, candidates_.size(), request_.op->name));
    try_next();
    if (before_ && is_busy()) return std::nullopt;
  }
  return finish();
}

Measured Contest::finish() {
  result_.untried = candidates_.size() - tried_;
  run_off();
  if (entries_.empty())
    throw Error(
        failure_ ? failure_->code() : ErrorCode::device,
        failure_ ? failure_->problem()
                 : fmt::format("no kernel of {} can be used on {}", request_.op->name, to_string(device_)),
        failure_ ? failure_->where() : std::string(),
        failure_ ? failure_->hint() : "'athanor cache clear' forgets which were found to be unusable");
  judge();
  trial_.reset();
  return std::move(result_);
}

bool Contest::is_right(size_t candidate) {
  only_check_ = true;
  expect(candidate);
  bool right = false;
  use_marked(candidates_[candidate], [&] {
    enter(candidate);
    right = !is_left_out(candidate);
  });
  return right;
}

void Contest::use_marked(const Candidate& candidate, const std::function<void()>& use) {
  if (KernelCache::instance().is_marked(key_, candidate.name)) {
    result_.dropped.push_back({candidate.name, "the program ended while it was tried"});
    return;
  }
  {
    // Pressing Ctrl-C does not mean that the candidate is bad.
    const InterruptScope held;
    const Marked marked(key_, candidate.name);
    const Watchdog watchdog(fmt::format("trying the kernel '{}' of {} on {}", candidate.name,
                                        request_.op->name, to_string(device_)));
    try {
      use();
    } catch (const Error& error) {
      drop(candidate, error);
    }
  }
  deliver_interrupt();
}

// The device cannot compile or launch this one. Others may work.
void Contest::drop(const Candidate& candidate, const Error& error) {
  failure_ = error;
  leave_out(candidate, error.problem());
}

bool Contest::is_left_out(size_t i) const {
  return std::ranges::find(result_.dropped, candidates_[i].name, &LeftOut::name) != result_.dropped.end();
}

void Contest::leave_out(const Candidate& candidate, const std::string& why) {
  if (std::ranges::find(result_.dropped, candidate.name, &LeftOut::name) == result_.dropped.end())
    result_.dropped.push_back({candidate.name, why});
}

void Contest::enter(size_t i) {
  const size_t tried = tried_;
  TrialResults result = trial().result(candidates_[i]);  // compiles and warms, too
  if (expected_.empty()) {
    expected_ = std::move(result);
  } else if (!is_expected(i, result)) {
    return leave_out(candidates_[i], "its results are wrong");
  }
  if (tried_ < tried) return;  // all are tried again
  if (only_check_) return;
  const Samples samples = time(i, entries_.empty() ? no_limit : hopeless * best_seconds());
  entries_.push_back({candidates_[i].name, i, samples.seconds(), samples.spread()});
}

Samples Contest::time(size_t i, double limit, double share) {
  Samples samples;
  load_.during([&] { samples = trial().time(candidates_[i], limit, share); });
  return samples;
}

// A core can be half as fast for some tenths of a second: its clock or another virtual machine slows it. No
// sample shows that. So the best take turns, and are compared with the best of the same round.
//
// If any candidate has failed, even a single remaining one is timed again: a device that has failed for good
// has no winner.
void Contest::run_off() {
  std::ranges::stable_sort(entries_, {}, &Entry::seconds);
  size_t finalists = 0;
  while (finalists < std::min(entries_.size(), most_finalists) &&
         entries_[finalists].seconds <= hopeless * entries_.front().seconds)
    ++finalists;
  if (finalists == 0 || (finalists == 1 && !failure_)) return;
  const int rounds = entries_.front().seconds < long_seconds ? most_rounds : least_rounds;
  double quickest = no_limit;  // of all rounds
  std::vector<Samples> samples(finalists);
  std::vector<std::vector<double>> ratios(finalists);  // to the best of a round
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> times(finalists);
    for (size_t turn = 0; turn < finalists; ++turn) {
      throw_if_interrupted();
      const size_t i = round % 2 == 0 ? turn : finalists - 1 - turn;
      Samples some;
      try {
        some = time(entries_[i].candidate, no_limit, 1.0 / rounds);
      } catch (const Error& error) {
        drop(candidates_[entries_[i].candidate], error);
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
        return run_off();
      }
      samples[i].add(some);
      times[i] = some.seconds();
    }
    const double best = *std::ranges::min_element(times);
    quickest = std::min(quickest, best);
    for (size_t i = 0; i < finalists; ++i) ratios[i].push_back(times[i] / best);
  }
  for (size_t i = 0; i < finalists; ++i) {
    std::ranges::nth_element(ratios[i], ratios[i].begin() + rounds / 2);
    entries_[i].seconds = quickest * ratios[i][rounds / 2];
    entries_[i].spread = samples[i].spread();
  }
  std::ranges::stable_sort(std::span(entries_).first(finalists), {}, &Entry::seconds);
}

void Contest::judge() {
  for (const Entry& entry : entries_) result_.times.emplace_back(entry.name, entry.seconds);
  result_.spread = entries_.front().spread;
  result_.busy = is_busy();
  result_.disturbed = result_.busy || result_.spread > wide_spread;
  if (before_ && result_.disturbed) {
    // Both timings were disturbed, which can only make times longer: take the shorter ones.
    for (auto& [name, seconds] : result_.times)
      for (const auto& [same, earlier] : before_->times)
        if (same == name) seconds = std::min(seconds, earlier);
    std::ranges::stable_sort(result_.times, {}, [](const auto& one) { return one.second; });
  }
  std::tie(result_.winner, result_.seconds) = result_.times.front();
  TuningCache::instance().remember(
      key_, {.name = result_.winner,
             .seconds = result_.seconds,
             .candidates = fingerprint(candidates_),
             .times = result_.times,
             .spread = result_.spread,
             .disturbed = result_.disturbed ? 1 + (before_ ? before_->disturbed : 0) : 0,
             .bucket = environment_ + "|" + bucket_of(request_),
             .work = work_.amount()});
  const bool fewer = std::ranges::find(candidates_, result_.winner, &Candidate::name)->fewer_products;
  if (result_.seconds > 0 && !result_.disturbed)
    KernelCache::instance().raise_peak(environment_, fewer ? 0 : work_.flops / result_.seconds,
                                       work_.bytes / result_.seconds);
}

}  // namespace athanor
