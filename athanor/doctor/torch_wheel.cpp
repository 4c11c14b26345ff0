#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/plan.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

bool fits(const Compatibility::Framework& release, const std::optional<Version>& python) {
  return !python || (*python >= release.oldest_python && *python <= release.newest_python);
}

std::string cuda_flavour(const Version& cuda) { return fmt::format("cu{}{}", cuda.at(0), cuda.at(1)); }

Text no_kernels(const Gpu& gpu) {
  return {fmt::format("no wheel of PyTorch has kernels for {}", gpu.title()),
          fmt::format("没有包含 {} 内核的 PyTorch wheel", gpu.title())};
}

TorchWheel made(const Compatibility::Framework& release, const std::string& flavour) {
  TorchWheel wheel;
  wheel.flavour = flavour;
  wheel.index = Compatibility::known().torch_index + flavour;
  wheel.version = release.version;
  return wheel;
}

TorchWheel for_nvidia(const std::vector<const Gpu*>& gpus, const std::optional<Version>& driver,
                      const std::optional<Version>& python) {
  const Compatibility& known = Compatibility::known();
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
  none.driver_too_old = driver_is_it;
  if (driver_is_it)
    none.obstacle = {fmt::format("the NVIDIA driver {} is older than every wheel needs", driver->text()),
                     fmt::format("NVIDIA 驱动 {} 比所有 wheel 的要求都旧", driver->text())};
  else
    none.obstacle = no_kernels(*gpus.front());
  return none;
}

TorchWheel for_amd(const std::vector<const Gpu*>& gpus, const std::optional<Version>& python) {
  const Compatibility& known = Compatibility::known();
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
  none.obstacle = no_kernels(*gpus.front());
  return none;
}

}  // namespace

TorchWheel torch_wheel(const Facts& facts, const std::optional<Version>& python) {
  const Compatibility& known = Compatibility::known();
  TorchWheel wheel;
  if (const auto gpus = computing_gpus(facts, Vendor::nvidia); !gpus.empty())
    wheel = for_nvidia(gpus, Version::parse(facts.nvidia().module_version), python);
  else if (const auto amd = computing_gpus(facts, Vendor::amd); !amd.empty())
    wheel = for_amd(amd, python);
  else
    for (auto release = known.pytorch.rbegin(); release != known.pytorch.rend() && wheel.index.empty();
         ++release)
      if (fits(*release, python)) wheel = made(*release, "cpu");
  if (wheel.index.empty() && wheel.obstacle.en.empty() && python)
    wheel.obstacle = {fmt::format("no release of PyTorch is for Python {}", python->text()),
                      fmt::format("没有支持 Python {} 的 PyTorch 版本", python->text())};
  return wheel;
}

}  // namespace athanor::doctor
