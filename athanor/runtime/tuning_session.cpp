#include "athanor/runtime/tuning_session.h"

#include <algorithm>
#include <set>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/kernels/guess.h"
#include "athanor/kernels/tuning_cache.h"

namespace athanor {
namespace {

// What timing is expected to save of a kernel's time: much, where nothing but the order of the candidates
// speaks for it; little, where it is the winner of a timing that was disturbed.
constexpr double gain_over_guess = 0.3, gain_over_provisional = 0.05;
// Faster by less is not worth another plan.
constexpr double least_speedup = 1.02;
// The first expectations, in seconds; then the last ones count.
constexpr double first_timing = 0.02, first_compilation = 0.3;
// How far compiling goes ahead of timing where it has other cores than the device.
constexpr size_t ahead = 4;

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

// By the time of one run of the plan; false as long as it has not run.
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

void TuningSession::begin_next() {
  problem_ = std::move(problems_.back());
  problems_.pop_back();
  candidates_ = backend_of(problem_.device).candidates(problem_.device.index, problem_.request);
  // What runs now comes first: it needs no compiling, and the others are measured by it.
  const size_t first = place_of(candidates_, problem_.kernel);
  if (first < candidates_.size())
    std::rotate(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(first),
                candidates_.begin() + static_cast<std::ptrdiff_t>(first) + 1);
  auto before = KernelCache::instance().find_winner(problem_.key);
  if (before && (before->disturbed == 0 || before->candidates != fingerprint(candidates_))) before.reset();
  compiler_.allow(computes_on_host_cores(problem_.device) ? 1 : ahead);
  contest_ = std::make_unique<Contest>(problem_.device, problem_.request, candidates_, std::move(before));
  compiled_ = 0;
}

void TuningSession::compile_ahead() {
  if (problem_.device == Device{} || contest_->next() == nullptr) return;
  const auto next = static_cast<size_t>(
      std::ranges::find(candidates_, contest_->next()->name, &Candidate::name) - candidates_.begin());
  const bool shared = computes_on_host_cores(problem_.device);
  const size_t end = std::min(candidates_.size(), next + (shared ? 1 : ahead));
  for (compiled_ = std::max(compiled_, next); compiled_ < end; ++compiled_) {
    if (shared && room() < a_compilation_) return;
    compiler_.add(problem_.key, candidates_[compiled_]);
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
  compiler_.drop();
  ++timed_;
  if (measured.winner == problem_.kernel) return {};
  const double before = time_of(measured, problem_.kernel);
  if (before > 0 && before < least_speedup * measured.seconds) {
    TuningCache::instance().take(problem_.key,
                                 {.name = problem_.kernel, .candidates = fingerprint(candidates_)});
    return {};
  }
  forget_plans_with({problem_.key});
  return {{.request = problem_.request.key(),
           .before = problem_.kernel,
           .now = measured.winner,
           .speedup = before > 0 && measured.seconds > 0 ? before / measured.seconds : 1}};
}

}  // namespace athanor
