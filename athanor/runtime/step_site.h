// A plan's step as the origin of commands and errors.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/queue.h"

namespace athanor {

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

/// The error with the step, its part of the model and its line. `more`: text that follows the step.
inline Error named(const Error& error, const StepSite& site, std::string_view more = "") {
  return Error(error.code(), fmt::format("{}{}: {}", site.step(), more, error.problem()),
               error.where().empty() ? site.where() : error.where(), error.hint());
}

}  // namespace athanor
