// Kernels with less scratch memory, for a plan that does not fit its memory limit with the fastest ones.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "athanor/compile/plan.h"

namespace athanor {

/// Gives each problem of a plan the kernel with the least scratch memory, whatever was timed. So whether a
/// plan fits does not depend on which kernels were the fastest on a day.
///
/// Its steps have PlanStep::spares_scratch: choose_kernels() compiles and checks their kernels.
class SparedScratch {
 public:
  /// The plan's kernels are chosen.
  explicit SparedScratch(Plan& plan);
  /// False if no kernel has changed.
  bool any() const { return !problems_.empty(); }
  /// Takes faster kernels with which the plan still `fits`. Problems whose kernel needed the least scratch
  /// memory come first.
  void give_back(Plan& plan, const std::function<bool(const Plan&)>& fits);

 private:
  struct Problem {
    std::string key;
    std::vector<Candidate> kernels;  // the fastest first, the one with the least scratch memory last
    std::string why;                 // the fastest was chosen
  };
  /// Gives these steps of the plan the problem's kernel of this number.
  static void set(Plan& plan, const std::vector<size_t>& steps, const Problem& problem, size_t number);

  std::vector<Problem> problems_;
};

}  // namespace athanor
