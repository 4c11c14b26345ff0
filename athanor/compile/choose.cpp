// Chooses a kernel for every step of a plan.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/check_loop.h"
#include "athanor/kernels/contest.h"
#include "athanor/kernels/guess.h"
#include "athanor/kernels/reference_kernel.h"
#include "athanor/kernels/references.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuner.h"
#include "athanor/kernels/waiting.h"

namespace athanor {
namespace {

// With Tuning::quick: how long the host's kernels are timed before a plan first runs.
constexpr double quick_seconds = 3;

class KernelChooser {
 public:
  KernelChooser(Plan& plan, const CompileOptions& options)
      : plan_(plan), options_(options), looks_(options.enabled(Pass::tune) && !options.deterministic) {}

  void run() {
    size_t number = 0;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      tell_wait("choosing kernels", fmt::format("step {} of {}", ++number, plan_.steps.size()));
      PlanStep& step = plan_.steps[s];
      if (step.kind != PlanStep::Kind::launch) continue;
      if (step.spares_scratch) adopt(s);
      if (step.kernel.kernel) continue;
      fresh_.push_back(s);
      step.loops.empty() ? choose_for_op(s) : choose_for_loops(step);
    }
    if (!options_.only_plans) {
      compile();
      if (looks_) check();
    }
    for (const Decision& decision : decisions_)
      for (const size_t s : decision.steps) {
        plan_.steps[s].kernel = decision.candidates[decision.choice.index];
        plan_.steps[s].why = decision.choice.why;
        if (decision.exact_instead) plan_.steps[s].why += "; in f32: it has no kernel of tf32";
        plan_.steps[s].measured = decision.choice.measured;
        plan_.steps[s].left_out = left_out_of(decision, plan_.steps[s]);
      }
    for (const size_t s : fresh_)
      if (PlanStep& step = plan_.steps[s]; step.off_device)
        step.why += "; on the host, as ATHANOR_HOST_OPS allows";
    if (options_.enabled(Pass::libraries)) name_libraries();
  }

 private:
  /// The choice for all steps with the same request.
  struct Decision {
    std::vector<size_t> steps;
    std::vector<Candidate> candidates;
    Choice choice;
    bool exact_instead = false;  // the device has no kernel that computes in tf32
  };

  static Error named(const PlanStep& step, const Error& error) {
    return {error.code(), fmt::format("a kernel for {}: {}", step.name_and_parts(), error.problem()),
            error.where().empty() ? step.where : error.where(), error.hint()};
  }
  /// Runs `action`; adds the step's name to an error.
  static auto said_of(const PlanStep& step, const auto& action) {
    try {
      return action();
    } catch (const Error& error) {
      throw named(step, error);
    }
  }

  // Takes a kernel that was chosen for its little scratch memory.
  void adopt(size_t s) {
    const PlanStep& step = plan_.steps[s];
    const std::string key = problem_key(step.device, *step.request);
    const auto [known, fresh] = decided_.emplace(key, decisions_.size());
    if (!fresh) return decisions_[known->second].steps.push_back(s);
    auto candidates = backend_of(step.device).candidates(step.device.index, *step.request);
    size_t place = place_of(candidates, step.kernel.name);
    if (place == candidates.size()) candidates = {step.kernel}, place = 0;
    Choice choice{place, step.why, step.measured, step.left_out};
    if (!options_.only_plans) take_spared(step.device, *step.request, candidates, choice);
    decisions_.push_back({{s}, std::move(candidates), std::move(choice)});
  }

  static void choose_for_loops(PlanStep& step) {
    Backend& backend = backend_of(step.device);
    if (step.loops.size() == 1) {
      step.kernel = backend.loop_kernel(step.device.index, step.loops.front());
      step.why = "generated for this loop";
      return;
    }
    step.kernel = step.chained ? backend.row_chain_kernel(step.device.index, step.loops)
                               : backend.joined_kernel(step.device.index, step.loops);
    step.why = "generated for these loops";
  }

  void choose_for_op(size_t s) {
    PlanStep& step = plan_.steps[s];
    const auto [known, fresh] = decided_.emplace(problem_key(step.device, *step.request), decisions_.size());
    if (!fresh) {
      Decision& decision = decisions_[known->second];
      if (decision.exact_instead) step.request->compute = ComputeType::by_dtypes;
      return decision.steps.push_back(s);
    }
    Backend& backend = backend_of(step.device);
    auto candidates = backend.candidates(step.device.index, *step.request);
    const bool exact_instead = candidates.empty() && step.request->compute != ComputeType::by_dtypes;
    if (exact_instead) {
      step.request->compute = ComputeType::by_dtypes;
      candidates = backend.candidates(step.device.index, *step.request);
    }
    if (candidates.empty()) {
      decided_.erase(known);
      return choose_the_reference(step);
    }
    const Choosing how = choosing(step.device);
    const auto start = Clock::now();
    Choice choice = said_of(step, [&] { return choose(step.device, *step.request, candidates, how); });
    if (how == Choosing::timed) {
      const double seconds = seconds_since(start);
      timing_seconds_ += seconds;
      if (choice.timed) plan_.timing_seconds += seconds, ++plan_.problems_timed;
    }
    decisions_.push_back({{s}, std::move(candidates), std::move(choice), exact_instead});
  }

  // With Tuning::quick only the host's kernels are timed, because they need no compiling.
  Choosing choosing(Device device) const {
    if (!looks_) return Choosing::first;
    if (options_.only_plans) return Choosing::guess;
    const bool timed =
        options_.tuning == Tuning::full ||
        (options_.tuning == Tuning::quick && device == Device{} && timing_seconds_ < quick_seconds);
    return timed ? Choosing::timed : Choosing::guess;
  }

  static std::vector<LeftOut> left_out_of(const Decision& decision, const PlanStep& step) {
    std::vector<LeftOut> all = decision.choice.dropped;
    for (LeftOut& one : backend_of(step.device).left_out(step.device.index, *step.request))
      all.push_back(std::move(one));
    return all;
  }

  // Devices of the same kind use the same libraries; each is listed once.
  void name_libraries() {
    for (const Device device : plan_.devices)
      for (std::string& library : backend_of(device).libraries(device.index))
        if (std::ranges::find(plan_.libraries, library) == plan_.libraries.end())
          plan_.libraries.push_back(std::move(library));
  }

  void choose_the_reference(PlanStep& step) {
    if (step.device != Device{} || !options_.allows_on_host(step.request->op->name))
      throw Error(ErrorCode::device,
                  fmt::format("{} has no kernel for {}", to_string(step.device), step.request->key()),
                  step.where);
    step.kernel = reference_kernel(*step.request);
    step.why = "there is no other kernel";
  }

  void compile() const {
    std::vector<Uncompiled> kernels, guesses;
    std::vector<size_t> steps;  // for each of `kernels`
    std::vector<std::shared_ptr<const Kernel>> compared_with;
    const auto add = [&](const Kernel* kernel, size_t s) {
      kernels.push_back({kernel, plan_.steps[s].device});
      steps.push_back(s);
    };
    for (const size_t s : fresh_)
      if (const Kernel* const kernel = plan_.steps[s].kernel.kernel.get()) add(kernel, s);
    for (const Decision& decision : decisions_) {
      const Kernel* const kernel = decision.candidates[decision.choice.index].kernel.get();
      if (!decision.choice.unchecked) {
        add(kernel, decision.steps.front());
        continue;
      }
      const PlanStep& step = plan_.steps[decision.steps.front()];
      guesses.push_back({kernel, step.device});
      const auto others = references(step.device, *step.request, decision.candidates, decision.choice.index);
      if (others.empty()) continue;
      compared_with.push_back(others.front().candidate.kernel);
      guesses.push_back({compared_with.back().get(), step.device});
    }
    prepare(kernels, guesses,
            [&](size_t kernel, const Error& error) { return named(plan_.steps[steps[kernel]], error); });
  }

  // Checks the results of kernels that were not timed. The tuner checks those that it times.
  void check() {
    for (size_t d = 0; d < decisions_.size(); ++d) {
      Decision& decision = decisions_[d];
      if (!decision.choice.unchecked) continue;
      const PlanStep& step = plan_.steps[decision.steps.front()];
      tell_wait("checking kernels", fmt::format("{} of {}", d + 1, decisions_.size()));
      said_of(step, [&] { check_guess(step.device, *step.request, decision.candidates, decision.choice); });
    }
    for (const size_t s : fresh_)
      if (const PlanStep& step = plan_.steps[s]; !step.loops.empty())
        said_of(step, [&] { require_right_loop(step.device, step.loops, step.kernel, step.name()); });
  }

  Plan& plan_;
  const CompileOptions& options_;
  bool looks_;  // whether remembered and measured times decide
  double timing_seconds_ = 0;
  std::vector<size_t> fresh_;  // steps that had no kernel
  std::vector<Decision> decisions_;
  std::map<std::string, size_t> decided_;  // by problem
};

}  // namespace

void choose_kernels(Plan& plan, const CompileOptions& options) { KernelChooser(plan, options).run(); }

}  // namespace athanor
