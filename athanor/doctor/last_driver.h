// Cards that NVIDIA's drivers have dropped: the last branch that runs one, and what that means for plans.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/facts.h"
#include "athanor/doctor/version.h"

namespace athanor::doctor {

/// The newest branch of NVIDIA's driver that runs a GPU.
struct LastDriver {
  uint32_t branch = 0;
  std::string chips;         // the chips it is the last for: "Kepler"; the GPU's name if the data lacks it
  std::string source, said;  // evidence: the source, and its words
};

/// By the chip, otherwise by the kernel's log, in which a newer driver names the branch for a GPU that it
/// ignores. None if newer branches run it too, or if nothing is known.
std::optional<LastDriver> last_driver(const Facts& facts, const Gpu& gpu);
/// The oldest branch among those of several GPUs.
std::optional<LastDriver> last_driver(const Facts& facts, const std::vector<const Gpu*>& gpus);

/// The version of NVIDIA's driver that is loaded, else installed; "" for none.
std::string newest_nvidia_driver(const Facts& facts);

/// Whether the loaded or installed driver has dropped the GPU, and no other driver runs it.
bool is_left_behind(const Facts& facts, const Gpu& gpu);
/// Why the GPU is not used, and what would change that.
Text left_behind_reason(const Facts& facts, const LastDriver& last);

/// The driver that programs for these GPUs can count on: the loaded one; if it has dropped one of them, or
/// none is loaded, the newest of the branch that runs them all. None: any.
std::optional<Version> usable_driver(const Facts& facts, const std::vector<const Gpu*>& gpus);

/// Whether programs for this compute capability (sm_50: 50) and newer ones run on a GPU. For a GPU with an
/// unknown chip, whether they may, judged by the other chips of its last driver.
bool may_run(const Facts& facts, const Gpu& gpu, int oldest_sm);
/// The same for kernels of these compute capabilities.
bool may_run(const Facts& facts, const Gpu& gpu, const Compatibility::SmList& kernels);

}  // namespace athanor::doctor
