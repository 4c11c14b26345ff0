#include <fmt/format.h>

#include <algorithm>

#include "athanor/device/chip_order.h"
#include "athanor/doctor/last_driver.h"
#include "athanor/doctor/plan_links.h"

namespace athanor::doctor {
namespace {

bool fits(const Compatibility::Framework& release, const std::optional<Version>& python) {
  return !python || (*python >= release.oldest_python && *python <= release.newest_python);
}

std::string cuda_flavour(const Version& cuda) { return fmt::format("cu{}{}", cuda.at(0), cuda.at(1)); }

Text no_kernels(const Gpu& gpu) {
  return {
      fmt::format("no wheel of PyTorch is known to have kernels for {} ({})", gpu.title(), origin("pytorch")),
      fmt::format("未知有包含 {} 内核的 PyTorch wheel（{}）", gpu.title(), origin("pytorch"))};
}

TorchWheel made(const Compatibility::Framework& release, const std::string& flavour) {
  TorchWheel wheel;
  wheel.flavour = flavour;
  wheel.index = Compatibility::known().torch_index + flavour;
  wheel.version = release.version;
  wheel.oldest_python = release.oldest_python;
  wheel.newest_python = release.newest_python;
  return wheel;
}

TorchWheel for_nvidia(const Facts& facts, const std::vector<const Gpu*>& gpus,
                      const std::optional<Version>& python) {
  const Compatibility& known = Compatibility::known();
  const auto driver = usable_driver(facts, gpus);
  bool driver_is_it = false;
  for (auto release = known.pytorch.rbegin(); release != known.pytorch.rend(); ++release) {
    if (!fits(*release, python)) continue;
    for (auto cuda = release->cuda.rbegin(); cuda != release->cuda.rend(); ++cuda) {
      const auto kernels = known.torch_sm(release->version, *cuda);
      const bool chips = !kernels || std::all_of(gpus.begin(), gpus.end(), [&](const Gpu* gpu) {
        return may_run(facts, *gpu, kernels->sm);
      });
      if (!chips) continue;
      const auto needed = known.oldest_driver(*cuda);
      if (!driver || !needed || *driver >= *needed) return made(*release, cuda_flavour(*cuda));
      driver_is_it = true;
    }
  }
  TorchWheel none;
  none.driver_too_old = driver_is_it;
  if (const auto last = last_driver(facts, gpus); driver_is_it && last)
    none.obstacle = {fmt::format("no wheel runs with branch {} of NVIDIA's driver, the last for {}",
                                 last->branch, last->chips),
                     fmt::format("没有可与 NVIDIA 驱动分支 {}（{} 的最后一个）一起运行的 wheel", last->branch,
                                 last->chips)};
  else if (driver_is_it)
    none.obstacle = {fmt::format("the NVIDIA driver {} is older than every wheel needs", driver->text()),
                     fmt::format("NVIDIA 驱动 {} 比所有 wheel 的要求都旧", driver->text())};
  else
    none.obstacle = no_kernels(*gpus.front());
  return none;
}

// AMD's own build, with the kernels of only these chips.
TorchWheel from_therock(const Compatibility::TheRock& index, const Chips& chips) {
  TorchWheel wheel;
  wheel.flavour = "rocm" + index.rocm.text();
  wheel.index = index.url;
  wheel.version = index.torch;
  wheel.therock = true;
  std::vector<std::string> extras;
  for (const std::string& chip : chips) extras.push_back("device-" + chip);
  wheel.package = fmt::format("torch[{}]", fmt::join(extras, ","));
  wheel.oldest_python = index.oldest_python;
  wheel.newest_python = index.newest_python;
  return wheel;
}

TorchWheel for_amd(const std::vector<const Gpu*>& gpus, const std::optional<Version>& python) {
  const Compatibility& known = Compatibility::known();
  Chips chips;
  for (const Gpu* gpu : gpus)
    if (!gpu->arch.empty()) chips.insert(gpu->arch);
  const auto official = [&](bool pretend) -> const Compatibility::Framework* {
    for (auto release = known.pytorch.rbegin(); release != known.pytorch.rend(); ++release) {
      const auto rocm = Version::parse(release->rocm);
      if (!rocm || !fits(*release, python)) continue;
      const auto has = [&](const std::string& chip) {
        return known.torch_has(release->version, *rocm, chip) == Compatibility::Has::yes;
      };
      const bool runs = std::all_of(chips.begin(), chips.end(), [&](const std::string& chip) {
        return has(chip) || (pretend && known.override_10_3_0.contains(chip) && has("gfx1030"));
      });
      if (runs && known.torch_targets(release->version, *rocm) != nullptr) return &*release;
    }
    return nullptr;
  };
  // Native kernels in an older release, or in AMD's own build, are better than another chip's in the newest.
  if (const auto* release = official(false)) return made(*release, "rocm" + release->rocm);
  if (const auto* index = known.therock_for(chips, python)) return from_therock(*index, chips);
  if (const auto* release = official(true)) {
    TorchWheel wheel = made(*release, "rocm" + release->rocm);
    wheel.variable = "HSA_OVERRIDE_GFX_VERSION", wheel.value = "10.3.0";
    return wheel;
  }
  TorchWheel none;
  none.obstacle = no_kernels(*gpus.front());
  return none;
}

TorchWheel for_intel(const std::vector<const Gpu*>& gpus, const std::optional<Version>& python) {
  const Compatibility& known = Compatibility::known();
  const auto without = std::find_if(gpus.begin(), gpus.end(),
                                    [&](const Gpu* gpu) { return !known.xpu_targets.contains(gpu->arch); });
  TorchWheel none;
  if (without != gpus.end()) {
    none.obstacle = {fmt::format("PyTorch's XPU wheels are not made for {}", (*without)->title()),
                     fmt::format("PyTorch 的 XPU wheel 不支持 {}", (*without)->title())};
    return none;
  }
  for (auto release = known.pytorch.rbegin(); release != known.pytorch.rend(); ++release)
    if (fits(*release, python) && release->version >= known.oldest_torch_xpu) return made(*release, "xpu");
  return none;
}

}  // namespace

TorchWheel torch_wheel(const Facts& facts, const std::optional<Version>& python) {
  TorchWheel first;
  const auto groups = gpu_groups(facts, {}).groups;
  for (const Gpus& gpus : groups) {
    TorchWheel wheel = torch_wheel(facts, gpus, python);
    if (!wheel.index.empty()) return wheel;
    if (&gpus == &groups.front()) first = std::move(wheel);
  }
  return first;
}

TorchWheel torch_wheel(const Facts& facts, const std::vector<const Gpu*>& gpus,
                       const std::optional<Version>& python) {
  const Compatibility& known = Compatibility::known();
  TorchWheel wheel;
  const Vendor vendor = gpus.empty() ? Vendor::other : gpus.front()->vendor;
  if (vendor == Vendor::nvidia)
    wheel = for_nvidia(facts, gpus, python);
  else if (vendor == Vendor::amd)
    wheel = for_amd(gpus, python);
  else if (vendor == Vendor::intel)
    wheel = for_intel(gpus, python);
  else if (!gpus.empty())
    wheel.obstacle = no_kernels(*gpus.front());
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
