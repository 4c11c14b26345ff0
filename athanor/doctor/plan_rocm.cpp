#include <fmt/format.h>

#include "athanor/doctor/plan_links.h"

namespace athanor::doctor {

void plan_rocm(InstallPlan& plan, const std::string& release, const Text& reason, const Text& newer) {
  plan.links.push_back({"ROCm", release, reason, newer, false});
  plan.driver_test += fmt::format(" && grep -q '^{}' /opt/rocm/.info/version", release);
  plan.driver_hint = fmt::format(
      "ROCm {} must be installed under /opt/rocm, and /dev/kfd open to you: rocm.docs.amd.com, then athanor "
      "doctor",
      release);
  plan.image = fmt::format("rocm/dev-ubuntu-24.04:{}-complete", release);  // with MIOpen, RCCL and the others
}

}  // namespace athanor::doctor
