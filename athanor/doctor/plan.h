// One consistent chain for a machine: driver, runtime, framework and flavour, Python; or the link that makes
// it impossible.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {

/// The newest torch wheel that runs here.
struct TorchWheel {
  std::string flavour;  // "cu128", "rocm6.4", "cpu"; "" where none uses the GPU
  std::string index;    // for pip's --index-url; "" likewise
  Version version;      // of torch, two numbers
  std::string variable, value;  // to be set for it (HSA_OVERRIDE_GFX_VERSION), or ""
  std::string obstacle;         // why there is none
};

/// For the machine's GPUs, and for an environment's Python where that is given.
TorchWheel torch_wheel(const Facts& facts, const std::optional<Version>& python);

struct Link {
  std::string part;   // "GPU", "driver", "ROCm", "PyTorch", "Python"
  std::string value;  // "rocm6.4"
  Text reason;
  Text newer;         // what would have to change for a newer one; may be empty
  bool broken = false;
};

struct Step {
  std::string command;
  std::string comment;
};

struct InstallPlan {
  std::string goal;  // "pytorch"
  std::vector<Link> links;
  std::string python;                  // "3.12"
  std::vector<std::string> packages;   // for pip
  std::string index, extra_index;      // for pip; "" for PyPI
  std::vector<std::pair<std::string, std::string>> variables;
  std::string image;                   // the base of a Dockerfile
  std::string check;                   // Python that says whether the GPU is used
  std::vector<std::string> system_packages;  // Debian's, for athanor
  std::string driver_test;             // shell: true where the driver is there
  std::string driver_hint;             // what to do where it is not

  bool possible() const;
};

/// `goal` is pytorch, tensorflow, jax or athanor. Throws Error(usage) for another.
InstallPlan make_plan(const Facts& facts, const std::string& goal);

std::string plan_text(const InstallPlan& plan, Language language);
std::string plan_json(const InstallPlan& plan, Language language);
/// `form` is script, dockerfile or conda. Throws Error(usage) for another, Error(value) where the plan is
/// impossible: with the link that makes it so.
std::string plan_as(const InstallPlan& plan, const std::string& form);

}  // namespace athanor::doctor
