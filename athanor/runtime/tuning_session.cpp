#include "athanor/runtime/tuning_session.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/kernels/guess.h"
#include "athanor/kernels/tuning_cache.h"

namespace athanor {
namespace {

// The share of a kernel's time that timing is expected to save: much if the kernel is only the first of the
// candidates, little if it is the winner of a timing that was disturbed.
constexpr double gain_over_guess = 0.3, gain_over_provisional = 0.05;
// A smaller speedup is not worth another plan.
constexpr double least_speedup = 1.02;
// The first expectations, in seconds. Later, the last measured times count.
constexpr double first_timing = 0.02, first_compilation = 0.3;
// If compiling has other cores than the device: the most kernels ahead of timing, and the most cores.
const size_t ahead = std::clamp(std::thread::hardware_concurrency() / 2, 2U, 8U);

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

bool computes_on_host_cores(Device device) { return info_of(device).kind == "cpu"; }

double time_of(const Measured& measured, const std::string& name) {
  for (const auto& [known, seconds] : measured.times)
    if (known == name) return seconds;
  return 0;
}

}  // namespace

TuningSession::TuningSession(TuningBudget budget, SecondsClock clock)
    : before_(compile_options()),
      budget_(budget),
      clock_(clock ? std::move(clock) : now),
      begin_(clock_()),
      a_timing_(first_timing),
      a_compilation_(first_compilation) {
  compile_options().tuning = Tuning::quick;
}

TuningSession::~TuningSession() { compile_options().tuning = before_.tuning; }

TuningState TuningSession::state() const {
  return {.problems = problems_at_first_, .timed = timed_, .seconds = spent_, .over = over_};
}

double TuningSession::room() {
  return std::min(budget_.seconds, budget_.share * (clock_() - begin_)) - spent_;
}

std::vector<KernelChange> TuningSession::between_steps(const std::shared_ptr<const Plan>& plan,
                                                       const std::function<void()>& finish) {
  if (over_ || plan == nullptr) return {};
  if (!looked_) return look_at(plan), std::vector<KernelChange>{};
  if (profile_ && !rank()) return {};
  if (!contest_) {
    if (problems_.empty() || spent_ >= budget_.seconds) {
      over_ = true;
      return {};
    }
    begin_next();
  }
  compile_ahead();
  spend_compiling();
  const Candidate* const next = contest_->next();
  if (next != nullptr && (!is_ready(*next) || room() < a_timing_)) return {};
  if (finish) finish();
  const std::unique_lock turn(timing_turn(), std::try_to_lock);
  if (!turn.owns_lock()) return {};
  const double start = clock_();
  std::vector<KernelChange> changes;
  try {
    if (next != nullptr) contest_->try_next();
    if (contest_->next() == nullptr) changes = conclude();
  } catch (const Error&) {
    contest_.reset();  // no candidate can be used, or there is no room for a trial: all stays as it is
    compiler_.drop(problem_.key);
  }
  a_timing_ = clock_() - start;
  spent_ += a_timing_;
  if (contest_) compile_ahead();
  return changes;
}

void TuningSession::look_at(const std::shared_ptr<const Plan>& plan) {
  looked_ = true;
  plan_ = plan;
  std::set<std::string> seen;
  for (const PlanStep& step : plan->steps) {
    if (!step.request || step.kind != PlanStep::Kind::launch) continue;
    std::string key = problem_key(step.device, *step.request);
    if (!seen.insert(key).second) continue;
    const auto candidates = backend_of(step.device).candidates(step.device.index, *step.request);
    if (!is_open(step.device, *step.request, candidates)) continue;
    problems_.push_back({.key = std::move(key),
                         .device = step.device,
                         .request = *step.request,
                         .kernel = step.kernel.name,
                         .gain = step.measured.empty() ? gain_over_guess : gain_over_provisional});
  }
  problems_at_first_ = problems_.size();
  over_ = problems_.empty();
  if (!over_) profile_.emplace();
}

// Sorts the problems by the time of one run of the plan. Returns false as long as it has not run.
bool TuningSession::rank() {
  const std::vector<StepTime>& times = profile_->times(plan_);
  if (times.size() != plan_->steps.size() || times.front().runs == 0) return false;
  for (Problem& problem : problems_)
    for (size_t s = 0; s < times.size(); ++s)
      if (const PlanStep& step = plan_->steps[s];
          step.request && problem_key(step.device, *step.request) == problem.key)
        problem.seconds += times[s].seconds / static_cast<double>(times[s].runs);
  std::ranges::stable_sort(problems_, {},
                           [](const Problem& problem) { return problem.gain * problem.seconds; });
  profile_.reset();
  plan_.reset();
  return true;
}

void TuningSession::list_candidates(Problem& problem) {
  if (!problem.candidates.empty()) return;
  auto& all = problem.candidates;
  all = backend_of(problem.device).candidates(problem.device.index, problem.request);
  const size_t first = place_of(all, problem.kernel);
  if (first < all.size())
    std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first),
                all.begin() + static_cast<std::ptrdiff_t>(first) + 1);
}

void TuningSession::begin_next() {
  problem_ = std::move(problems_.back());
  problems_.pop_back();
  list_candidates(problem_);
  auto before = KernelCache::instance().find_winner(problem_.key);
  if (before && (before->disturbed == 0 || before->candidates != fingerprint(problem_.candidates)))
    before.reset();
  compiler_.allow(computes_on_host_cores(problem_.device) ? 1 : ahead);
  contest_ =
      std::make_unique<Contest>(problem_.device, problem_.request, problem_.candidates, std::move(before));
}

void TuningSession::compile_ahead() {
  const Candidate* const tried = contest_->next();
  if (problem_.device == Device{} || tried == nullptr) return;
  const auto next = static_cast<size_t>(
      std::ranges::find(problem_.candidates, tried->name, &Candidate::name) - problem_.candidates.begin());
  problem_.compiled = std::max(problem_.compiled, next);
  if (computes_on_host_cores(problem_.device)) {
    if (problem_.compiled == next && room() >= a_compilation_)
      compiler_.add(problem_.key, problem_.candidates[problem_.compiled++]);
    return;
  }
  const auto compile = [&](Problem& problem) {
    while (problem.compiled < problem.candidates.size() && compiler_.waiting() < ahead)
      compiler_.add(problem.key, problem.candidates[problem.compiled++]);
  };
  compile(problem_);
  for (size_t n = problems_.size(); n-- > 0 && compiler_.waiting() < ahead;) {
    if (computes_on_host_cores(problems_[n].device)) continue;
    list_candidates(problems_[n]);
    compile(problems_[n]);
  }
}

bool TuningSession::is_ready(const Candidate& candidate) {
  if (problem_.device == Device{}) return true;  // nothing is compiled
  if (!compiler_.is_done(problem_.key, candidate)) return false;
  return compiler_.is_idle() || !computes_on_host_cores(problem_.device);
}

void TuningSession::spend_compiling() {
  const double compiling = compiler_.seconds() - charged_;
  if (compiling <= 0) return;
  charged_ += compiling;
  if (!computes_on_host_cores(problem_.device)) return;
  spent_ += compiling;
  a_compilation_ = compiling;
}

std::vector<KernelChange> TuningSession::conclude() {
  const Measured measured = contest_->finish();
  contest_.reset();
  compiler_.drop(problem_.key);
  ++timed_;
  const std::string candidates = fingerprint(problem_.candidates);
  problem_.candidates.clear();
  backend_of(problem_.device).unload_unused_kernels(problem_.device.index);
  if (measured.winner == problem_.kernel) return {};
  const double before = time_of(measured, problem_.kernel);
  if (before > 0 && before < least_speedup * measured.seconds) {
    TuningCache::instance().take(problem_.key, {.name = problem_.kernel, .candidates = candidates},
                                 Taken::kept);
    return {};
  }
  forget_plans_with({problem_.key});
  return {{.request = problem_.request.key(),
           .before = problem_.kernel,
           .now = measured.winner,
           .speedup = before > 0 && measured.seconds > 0 ? before / measured.seconds : 1}};
}

}  // namespace athanor
