#include "athanor/doctor/last_driver.h"
#include "athanor/doctor/plan_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

Text torch_reason(const TorchWheel& wheel, const std::vector<const Gpu*>& gpus) {
  if (wheel.flavour == "cpu")
    return {fmt::format("the newest known ({})", origin("pytorch")),
            fmt::format("已知的最新版本（{}）", origin("pytorch"))};
  if (wheel.flavour == "xpu")
    return {fmt::format("the newest known; XPU wheels are made for this GPU ({})", origin("xpu")),
            fmt::format("已知的最新版本；XPU wheel 支持此 GPU（{}）", origin("xpu"))};
  // For an unknown chip, only that nothing speaks against it.
  if (wheel.flavour.starts_with("cu") &&
      std::ranges::any_of(gpus, [](const Gpu* gpu) { return gpu->arch.empty(); }))
    return {
        fmt::format("the newest known that may run here; whether the wheel has kernels for the GPU is not "
                    "known, because its chip could not be read ({})",
                    origin("pytorch")),
        fmt::format("可能可用的已知最新版本；无法读出此 GPU 的芯片，因此 wheel 是否包含其内核"
                    "未知（{}）",
                    origin("pytorch"))};
  if (!wheel.therock)
    return {fmt::format("the newest known whose wheels run on this GPU and driver ({})", origin("pytorch")),
            fmt::format("其 wheel 支持此 GPU 和驱动的已知最新版本（{}）", origin("pytorch"))};
  // pip can install it, but that does not show that it computes.
  const bool tested = std::all_of(gpus.begin(), gpus.end(), [](const Gpu* gpu) {
    return gpu->arch.empty() || Compatibility::known().therock_tested.contains(gpu->arch);
  });
  return {
      fmt::format("AMD's own build: the newest known with kernels for this chip, which PyTorch's own wheels "
                  "are not known "
                  "to have; {} ({})",
                  tested ? "AMD tests it on this chip" : "AMD does not say that it was tested on this chip",
                  origin("therock")),
      fmt::format("AMD 自己的版本：已知包含此芯片内核的最新版本，PyTorch 官方 wheel 未知是否包含；{}（{}）",
                  tested ? "AMD 在此芯片上测试" : "AMD 未说明是否在此芯片上测试过", origin("therock"))};
}

// What a newer CUDA than this one needs.
Text newer_cuda(const Facts& facts, const Gpus& gpus, const Version& cuda) {
  const Compatibility& known = Compatibility::known();
  const auto last = last_driver(facts, gpus);
  for (const Compatibility::Toolkit& toolkit : known.cuda) {
    if (toolkit.version <= cuda) continue;
    const auto needed = known.oldest_driver(toolkit.version);
    const auto without = std::ranges::find_if(
        gpus, [&](const Gpu* gpu) { return !may_run(facts, *gpu, toolkit.sm.oldest()); });
    const bool dropped = last && needed && needed->at(0) > last->branch;
    if (without == gpus.end() && !dropped) continue;
    const std::string whom = without != gpus.end() && !(*without)->arch.empty() ? (*without)->arch
                             : last                                             ? last->chips
                                                                                : "it";
    return {fmt::format("another GPU: CUDA {} and newer do not support {}", toolkit.version.text(), whom),
            fmt::format("更换 GPU：CUDA {} 起不再支持 {}", toolkit.version.text(), whom)};
  }
  const auto& [major, driver] = *known.minimum_driver.rbegin();
  if (major <= cuda.at(0)) return {};
  return {fmt::format("CUDA {} needs a driver from {} on", major, driver.text()),
          fmt::format("CUDA {} 需要 {} 以上的驱动", major, driver.text())};
}

// Why no newer release was chosen.
Text newer_torch(const TorchWheel& wheel) {
  const Compatibility& known = Compatibility::known();
  const bool rocm = wheel.flavour.starts_with("rocm");
  const std::string newest = known.pytorch.back().version.text();
  if (wheel.therock && known.therock.back().targets.empty() && known.therock.back().torch > wheel.version)
    return {fmt::format("{} has torch {} for ROCm {}; for which chips is not known to the data",
                        known.therock.back().url, known.therock.back().torch.text(),
                        known.therock.back().rocm.text()),
            fmt::format("{} 提供 torch {}（ROCm {}）；数据中没有其支持的芯片", known.therock.back().url,
                        known.therock.back().torch.text(), known.therock.back().rocm.text())};
  if (rocm && known.pytorch.back().rocm.empty())
    return {fmt::format("for which ROCm {} is built is not known to the data", newest),
            fmt::format("数据中没有 {} 对应的 ROCm 版本", newest)};
  const auto next = std::ranges::find_if(
      known.pytorch, [&](const auto& release) { return release.version > wheel.version; });
  if (next == known.pytorch.end() || &*next == &known.pytorch.back())
    return {fmt::format("{} has no wheel for this GPU or driver", newest),
            fmt::format("{} 没有支持此 GPU 或驱动的 wheel", newest)};
  return {fmt::format("{} and newer have no wheel for this GPU or driver", next->version.text()),
          fmt::format("{} 起没有支持此 GPU 或驱动的 wheel", next->version.text())};
}

}  // namespace

void plan_pytorch(InstallPlan& plan, const Facts& facts, const Gpus& gpus) {
  // The newest, whichever Pythons are installed: another Python is quickly installed.
  const TorchWheel wheel = torch_wheel(facts, gpus, std::nullopt);
  const std::string cuda = cuda_of_flavour(wheel.flavour);
  const auto needed =
      Version::parse(cuda) ? Compatibility::known().oldest_driver(*Version::parse(cuda)) : std::nullopt;
  const Vendor vendor = gpus.empty() ? Vendor::other : gpus.front()->vendor;
  if (vendor == Vendor::nvidia)
    plan.links.push_back(nvidia_driver_link(facts, gpus, needed)), need_nvidia(plan, facts, gpus, needed);
  else if (vendor == Vendor::amd)
    plan.links.push_back(amd_driver_link(facts)), need_amd(plan);
  else if (vendor == Vendor::intel)
    add_intel_driver_links(plan, facts, *gpus.front());
  if (wheel.index.empty()) {
    const bool driver = wheel.driver_too_old;
    if (driver) plan.links.back().broken = true;
    plan.links.push_back({"PyTorch", "-", wheel.obstacle, other_ways(facts, gpus), !driver});
    return;
  }
  const Version newest = Compatibility::known().pytorch.back().version;
  if (!cuda.empty()) {
    Link toolkit{
        "CUDA", cuda, {"comes in the wheel; nothing to install", "包含在 wheel 中，无需安装"}, {}, false};
    toolkit.newer = newer_cuda(facts, gpus, *Version::parse(cuda));
    plan.links.push_back(toolkit);
  }
  if (wheel.flavour.starts_with("rocm")) {
    // From 7.14 on ROCm's libraries are packages of their own (rocm-sdk), which the wheel requires.
    const bool apart = Version::parse(wheel.flavour.substr(4)) >= Version::parse("7.14");
    plan.links.push_back({"ROCm",
                          wheel.flavour.substr(4),
                          apart ? Text{"comes with it from the same index (rocm-sdk); nothing to install",
                                       "随 wheel 从同一索引安装（rocm-sdk），无需另行安装"}
                                : Text{"comes in the wheel; nothing to install", "包含在 wheel 中，无需安装"},
                          {},
                          false});
  }
  Link torch{"PyTorch", wheel.version.text() + ", " + wheel.flavour, {}, {}, false};
  torch.reason = torch_reason(wheel, gpus);
  if (wheel.version < newest)
    torch.newer = newer_torch(wheel);
  else
    torch.newer = {"none is known to the data", "数据中没有更新的版本"};
  plan.links.push_back(torch);
  if (!wheel.variable.empty()) {
    plan.variables.emplace_back(wheel.variable, wheel.value);
    plan.links.push_back(
        {"variable",
         wheel.variable + "=" + wheel.value,
         {fmt::format("{} runs the kernels of gfx1030, whose instructions are the same", gpus.front()->arch),
          fmt::format("{} 运行 gfx1030 的内核，两者指令相同", gpus.front()->arch)},
         {},
         false});
  }
  const Version python = choose_python(facts, wheel.oldest_python, wheel.newest_python);
  plan.python = python.text();
  plan.links.push_back(
      python_link(facts, python, wheel.oldest_python.text() + " - " + wheel.newest_python.text()));
  plan.packages = {fmt::format("{}=={}.*", wheel.package, wheel.version.text())};
  plan.index = wheel.index;
  const char* name = vendor == Vendor::intel ? "xpu" : "cuda";  // ROCm's is called cuda, too
  plan.check = gpus.empty()
                   ? "import torch; print(torch.__version__); print((torch.ones(2, 2) @ torch.ones(2, "
                     "2)).sum().item())"
                   : fmt::format(
                         "import torch; assert torch.{0}.is_available(), \"no GPU\"; x = torch.ones(64, 64, "
                         "device=\"{0}\"); print(torch.__version__, torch.{0}.get_device_name(0), (x @ "
                         "x).sum().item())",
                         name);
}

}  // namespace athanor::doctor
