// Cards that NVIDIA's drivers have dropped: the last branch that runs one, and what that means for plans.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "athanor/doctor/facts.h"
#include "athanor/doctor/version.h"

namespace athanor::doctor {

/// The newest branch of NVIDIA's driver that runs a GPU.
struct LastDriver {
  uint32_t branch = 0;
  std::string chips;         // whose last it is: "Kepler"; the GPU's name where the data lacks the branch
  std::string source, said;  // evidence: what says so, and how
};

/// By the chip, else by the kernel's log, where a newer driver says which branch runs a GPU that it ignores.
/// None where newer ones run it too, and where nothing is known.
std::optional<LastDriver> last_driver(const Facts& facts, const Gpu& gpu);
/// The oldest of several GPUs'.
std::optional<LastDriver> last_driver(const Facts& facts, const std::vector<const Gpu*>& gpus);

/// The version of NVIDIA's driver that is loaded, else installed; "" for none.
std::string newest_nvidia_driver(const Facts& facts);

/// The driver that is loaded or installed has dropped the GPU, which nothing runs.
bool is_left_behind(const Facts& facts, const Gpu& gpu);
/// Why it is not used, and what would change that.
Text left_behind_reason(const Facts& facts, const LastDriver& last);

/// The driver that programs for these GPUs can count on: the loaded one; where that has dropped one of them,
/// or none is loaded, the newest of the branch that runs them all. None: any.
std::optional<Version> usable_driver(const Facts& facts, const std::vector<const Gpu*>& gpus);

/// Whether kernels for these compute capabilities (sm_50: 50) run on a GPU. Of one whose chip is not known,
/// whether they may, by what else its last driver runs.
bool may_run(const Facts& facts, const Gpu& gpu, int oldest_sm,
             int newest_sm = std::numeric_limits<int>::max());

}  // namespace athanor::doctor
