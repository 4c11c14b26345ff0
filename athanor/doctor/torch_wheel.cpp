#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/plan.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

using Known = Compatibility;

bool fits(const Known::Framework& release, const std::optional<Version>& python) {
  return !python || (*python >= release.oldest_python && *python <= release.newest_python);
}

std::string cuda_flavour(const Version& cuda) { return fmt::format("cu{}{}", cuda.at(0), cuda.at(1)); }

TorchWheel made(const Known::Framework& release, const std::string& flavour) {
  return {flavour, Known::known().torch_index + flavour, release.version, "", "", ""};
}

TorchWheel for_nvidia(const std::vector<const Gpu*>& gpus, const std::optional<Version>& driver,
                      const std::optional<Version>& python) {
  const Known& known = Known::known();
  bool driver_is_it = false;
  for (auto release = known.pytorch.rbegin(); release != known.pytorch.rend(); ++release) {
    if (!fits(*release, python)) continue;
    for (auto cuda = release->cuda.rbegin(); cuda != release->cuda.rend(); ++cuda) {
      const auto range = known.torch_sm(release->version, *cuda);
      const bool chips = !range || std::all_of(gpus.begin(), gpus.end(), [&](const Gpu* gpu) {
        const int number = sm_number(gpu->arch);
        return number == 0 || (number >= range->oldest && number <= range->newest);
      });
      if (!chips) continue;
      const auto needed = known.oldest_driver(*cuda);
      if (!driver || !needed || *driver >= *needed) return made(*release, cuda_flavour(*cuda));
      driver_is_it = true;
    }
  }
  TorchWheel none;
  none.obstacle = driver_is_it
                      ? fmt::format("the NVIDIA driver {} is older than every wheel needs", driver->text())
                      : fmt::format("no wheel has kernels for {}", gpus.front()->title());
  return none;
}

TorchWheel for_amd(const std::vector<const Gpu*>& gpus, const std::optional<Version>& python) {
  const Known& known = Known::known();
  // Native kernels in an older release are better than another chip's in the newest.
  for (const bool pretend : {false, true})
    for (auto release = known.pytorch.rbegin(); release != known.pytorch.rend(); ++release) {
      const auto rocm = Version::parse(release->rocm);
      const auto* targets = rocm ? known.torch_targets(*rocm) : nullptr;
      if (targets == nullptr || !fits(*release, python)) continue;
      const bool runs = std::all_of(gpus.begin(), gpus.end(), [&](const Gpu* gpu) {
        return gpu->arch.empty() || targets->contains(gpu->arch) ||
               (pretend && targets->contains("gfx1030") && known.override_10_3_0.contains(gpu->arch));
      });
      if (!runs) continue;
      TorchWheel wheel = made(*release, "rocm" + release->rocm);
      if (pretend) wheel.variable = "HSA_OVERRIDE_GFX_VERSION", wheel.value = "10.3.0";
      return wheel;
    }
  TorchWheel none;
  none.obstacle = fmt::format("no wheel of PyTorch has kernels for {}", gpus.front()->title());
  return none;
}

}  // namespace

TorchWheel torch_wheel(const Facts& facts, const std::optional<Version>& python) {
  const Known& known = Known::known();
  TorchWheel wheel;
  if (const auto gpus = computing_gpus(facts, Vendor::nvidia); !gpus.empty())
    wheel = for_nvidia(gpus, Version::parse(facts.nvidia().module_version), python);
  else if (const auto amd = computing_gpus(facts, Vendor::amd); !amd.empty())
    wheel = for_amd(amd, python);
  else
    for (auto release = known.pytorch.rbegin(); release != known.pytorch.rend() && wheel.index.empty();
         ++release)
      if (fits(*release, python)) wheel = made(*release, "cpu");
  if (wheel.index.empty() && wheel.obstacle.empty() && python)
    wheel.obstacle = fmt::format("no release of PyTorch is for Python {}", python->text());
  return wheel;
}

}  // namespace athanor::doctor
