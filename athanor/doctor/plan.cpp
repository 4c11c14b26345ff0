#include "athanor/doctor/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

using Known = Compatibility;

const Known& known() { return Known::known(); }

// Pythons that are here, the newest first.
std::vector<Version> pythons(const Facts& facts) {
  std::vector<Version> all;
  for (const PythonEnvironment& environment : facts.pythons())
    if (const auto version = Version::parse(environment.version); version && !environment.broken)
      all.push_back(version->first(2));
  std::sort(all.rbegin(), all.rend());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// One Python of a range: of those that are here, else the newest but one of the range, which packages that
// torch needs are sure to have wheels for.
Version choose_python(const Facts& facts, const Version& oldest, const std::optional<Version>& newest) {
  for (const Version& version : pythons(facts))
    if (version >= oldest && (!newest || version <= *newest)) return version;
  if (newest && newest->at(1) > oldest.at(1))
    return *Version::parse(fmt::format("{}.{}", newest->at(0), newest->at(1) - 1));
  return newest ? *newest : oldest;
}

std::string origin(const char* table) {
  const auto& one = known().origins.at(table);
  return fmt::format("{}, {}", one.source, one.date);
}

Link python_link(const Facts& facts, const Version& python, const std::string& range) {
  const auto here = pythons(facts);
  const bool there = std::find(here.begin(), here.end(), python) != here.end();
  Link link{"Python", python.text(), {}, {}, false};
  link.reason = there ? Text{fmt::format("it is on this machine, and fits: {}", range),
                             fmt::format("本机已有，且符合要求：{}", range)}
                      : Text{fmt::format("must be installed; what fits is {}", range),
                             fmt::format("需要安装；符合要求的版本：{}", range)};
  return link;
}

std::string shown(const std::vector<const Gpu*>& gpus) {
  return gpus.size() > 1 ? fmt::format("{} x {}", gpus.size(), gpus.front()->title()) : gpus.front()->title();
}

Link gpu_link(const std::vector<const Gpu*>& gpus) {
  if (gpus.empty())
    return {"GPU", "-", {"none was found: everything for the CPU", "未发现 GPU：全部使用 CPU 版"}, {}, false};
  const Gpu& gpu = *gpus.front();
  return {
      "GPU",
      shown(gpus),
      {fmt::format("PCI {}, by {}", gpu.address, gpu.arch_source.empty() ? "its id" : gpu.arch_source),
       fmt::format("PCI {}，依据 {}", gpu.address, gpu.arch_source.empty() ? "设备编号" : gpu.arch_source)},
      {},
      false};
}

Link nvidia_driver_link(const Facts& facts, const std::optional<Version>& needed) {
  const std::string& here = facts.nvidia().module_version;
  const std::string from = needed ? needed->text() : "?";
  Link link{
      "driver", here.empty() ? fmt::format("NVIDIA {} or newer", from) : "NVIDIA " + here, {}, {}, false};
  link.reason = here.empty()
                    ? Text{fmt::format("none is loaded; this CUDA needs {} or newer", from),
                           fmt::format("当前没有加载；此 CUDA 需要 {} 以上", from)}
                    : Text{fmt::format("loaded; this CUDA needs {} or newer ({})", from, origin("cuda")),
                           fmt::format("已加载；此 CUDA 需要 {} 以上（{}）", from, origin("cuda"))};
  return link;
}

void need_nvidia(InstallPlan& plan, const std::optional<Version>& needed) {
  plan.driver_test = "nvidia-smi >/dev/null 2>&1";
  plan.driver_hint = fmt::format(
      "NVIDIA's driver ({} or newer) does not answer: install it, restart, and see: athanor doctor",
      needed ? needed->text() : "any");
}

void need_amd(InstallPlan& plan) {
  plan.driver_test = "[ -r /dev/kfd ] && [ -w /dev/kfd ]";
  plan.driver_hint = "/dev/kfd is missing or may not be opened; athanor doctor says why";
}

Link amd_driver_link(const Facts& facts) {
  const bool loaded = facts.has_module("amdgpu");
  return {"driver",
          loaded ? fmt::format("amdgpu, Linux {}", facts.system().kernel) : "amdgpu",
          loaded ? Text{"the kernel's own driver runs it", "由内核自带驱动运行"}
                 : Text{"not loaded; the kernel brings it", "未加载；内核自带"},
          {"a chip newer than the kernel needs a newer kernel", "比内核新的芯片需要更新的内核"},
          false};
}

void plan_pytorch(InstallPlan& plan, const Facts& facts) {
  const auto nvidia = computing_gpus(facts, Vendor::nvidia), amd = computing_gpus(facts, Vendor::amd);
  const auto& gpus = nvidia.empty() ? amd : nvidia;
  plan.links.push_back(gpu_link(gpus));
  // The newest, whatever Pythons are here: another Python is soon installed.
  const TorchWheel wheel = torch_wheel(facts, std::nullopt);
  const auto* release = wheel.index.empty() ? nullptr : Known::find(known().pytorch, wheel.version);
  const std::string cuda = cuda_of_flavour(wheel.flavour);
  const auto needed = Version::parse(cuda) ? known().oldest_driver(*Version::parse(cuda)) : std::nullopt;
  if (!nvidia.empty())
    plan.links.push_back(nvidia_driver_link(facts, needed)), need_nvidia(plan, needed);
  else if (!amd.empty())
    plan.links.push_back(amd_driver_link(facts)), need_amd(plan);
  if (release == nullptr) {
    const bool driver = wheel.driver_too_old;
    if (driver) plan.links.back().broken = true;
    plan.links.push_back({"PyTorch",
                          "-",
                          wheel.obstacle,
                          {"a newer driver, another GPU, or Athanor through OpenCL (--plan athanor)",
                           "更新驱动、更换 GPU，或通过 OpenCL 使用 Athanor（--plan athanor）"},
                          !driver});
    return;
  }
  const Version newest = known().pytorch.back().version;
  if (!cuda.empty()) {
    Link toolkit{"CUDA",
                 cuda,
                 {"comes in the wheel; nothing is to be installed", "包含在 wheel 中，无需安装"},
                 {},
                 false};
    if (const auto& newest_major = *known().minimum_driver.rbegin();
        newest_major.first > Version::parse(cuda)->at(0))
      toolkit.newer = {
          fmt::format("CUDA {} needs a driver from {} on", newest_major.first, newest_major.second.text()),
          fmt::format("CUDA {} 需要 {} 以上的驱动", newest_major.first, newest_major.second.text())};
    plan.links.push_back(toolkit);
  }
  if (wheel.flavour.starts_with("rocm"))
    plan.links.push_back({"ROCm",
                          release->rocm,
                          {"comes in the wheel; nothing is to be installed", "包含在 wheel 中，无需安装"},
                          {},
                          false});
  Link torch{"PyTorch", wheel.version.text() + ", " + wheel.flavour, {}, {}, false};
  torch.reason = {fmt::format("the newest whose wheels run on this GPU and driver ({})", origin("pytorch")),
                  fmt::format("其 wheel 支持此 GPU 和驱动的最新版本（{}）", origin("pytorch"))};
  if (wheel.version < newest)
    torch.newer = {fmt::format("{} has no wheel for this GPU or driver", newest.text()),
                   fmt::format("{} 没有支持此 GPU 或驱动的 wheel", newest.text())};
  else
    torch.newer = {"newer ones are not in the data", "数据中没有更新的版本"};
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
  const Version python = choose_python(facts, release->oldest_python, release->newest_python);
  plan.python = python.text();
  plan.links.push_back(
      python_link(facts, python, release->oldest_python.text() + " - " + release->newest_python.text()));
  plan.packages = {fmt::format("torch=={}.*", wheel.version.text())};
  plan.index = wheel.index;
  plan.check =
      gpus.empty()
          ? "import torch; print(torch.__version__); print((torch.ones(2, 2) @ torch.ones(2, "
            "2)).sum().item())"
          : "import torch; assert torch.cuda.is_available(), \"no GPU\"; x = torch.ones(64, 64, "
            "device=\"cuda\"); print(torch.__version__, torch.cuda.get_device_name(0), (x @ x).sum().item())";
}

// The newest ROCm row that has a framework, and serves these chips.
const Known::Rocm* rocm_for(const std::vector<const Gpu*>& gpus, std::string Known::Rocm::*framework,
                            const std::optional<Version>& here) {
  const Known::Rocm* found = nullptr;
  for (const Known::Rocm& row : known().rocm) {
    if ((row.*framework).empty() || (here && row.version != here->first(2))) continue;
    const bool chips = std::all_of(gpus.begin(), gpus.end(),
                                   [&](const Gpu* gpu) { return row.targets.contains(gpu->arch); });
    if (chips) found = &row;
  }
  return found;
}

std::optional<Version> rocm_here(const Facts& facts) {
  for (const std::string& folder : facts.rocm_folders())
    if (auto version = Version::parse(facts.machine().read_line(folder + "/.info/version").value_or("")))
      return version;
  return std::nullopt;
}

// What TensorFlow and JAX have alike on AMD: ROCm must be on the machine, of a release that knows the chip.
const Known::Rocm* plan_rocm(InstallPlan& plan, const Facts& facts, const std::vector<const Gpu*>& amd,
                             std::string Known::Rocm::*framework, const char* name) {
  plan.links.push_back(amd_driver_link(facts));
  need_amd(plan);
  const auto here = rocm_here(facts);
  const Known::Rocm* row = rocm_for(amd, framework, here);
  if (row == nullptr && here) row = rocm_for(amd, framework, std::nullopt);
  if (row == nullptr) {
    plan.links.push_back(
        {"ROCm",
         "-",
         {fmt::format("no release has {} for {} ({})", name, amd.front()->title(), origin("rocm")),
          fmt::format("没有为 {} 提供 {} 的版本（{}）", amd.front()->title(), name, origin("rocm"))},
         {"another GPU, or PyTorch (--plan pytorch) or Athanor (--plan athanor)",
          "更换 GPU，或改用 PyTorch（--plan pytorch）或 Athanor（--plan athanor）"},
         true});
    return nullptr;
  }
  const bool there = here && here->first(2) == row->version;
  plan.links.push_back(
      {"ROCm",
       row->version.text(),
       there ? Text{"installed", "已安装"}
             : Text{fmt::format("to be installed: the newest that has {} for this chip ({})", name,
                                origin("rocm")),
                    fmt::format("需要安装：为此芯片提供 {} 的最新版本（{}）", name, origin("rocm"))},
       {},
       false});
  plan.driver_test += fmt::format(" && grep -q '^{}' /opt/rocm/.info/version", row->version.text());
  plan.driver_hint = fmt::format(
      "ROCm {} must be installed under /opt/rocm, and /dev/kfd open to you: rocm.docs.amd.com, then athanor "
      "doctor",
      row->version.text());
  plan.image = fmt::format("rocm/dev-ubuntu-24.04:{}", row->version.text());
  return row;
}

void plan_tensorflow(InstallPlan& plan, const Facts& facts) {
  const auto nvidia = computing_gpus(facts, Vendor::nvidia), amd = computing_gpus(facts, Vendor::amd);
  plan.links.push_back(gpu_link(nvidia.empty() ? amd : nvidia));
  plan.check = "import tensorflow as tf; print(tf.__version__, tf.config.list_physical_devices())";
  const auto driver = Version::parse(facts.nvidia().module_version);
  const Known::Framework* release = nullptr;
  if (nvidia.empty() && !amd.empty()) {
    const Known::Rocm* row = plan_rocm(plan, facts, amd, &Known::Rocm::tensorflow, "TensorFlow");
    if (row == nullptr) return;
    release = Known::find(known().tensorflow, *Version::parse(row->tensorflow));
    plan.packages = {fmt::format("tensorflow-rocm=={}.*", Version::parse(row->tensorflow)->first(2).text())};
    plan.find_links = fmt::format("https://repo.radeon.com/rocm/manylinux/rocm-rel-{}/", row->version.text());
  } else {
    for (auto one = known().tensorflow.rbegin(); one != known().tensorflow.rend() && release == nullptr;
         ++one) {
      const auto needed = known().oldest_driver(one->cuda.front());
      if (nvidia.empty() || !driver || !needed || *driver >= *needed) release = &*one;
    }
    const Known::Framework& shown_release = release == nullptr ? known().tensorflow.front() : *release;
    const auto needed = known().oldest_driver(shown_release.cuda.front());
    if (!nvidia.empty()) {
      plan.links.push_back(nvidia_driver_link(facts, needed));
      need_nvidia(plan, needed);
      if (release == nullptr) {
        plan.links.back().broken = true;
        return;
      }
      plan.links.push_back(
          {"CUDA, cuDNN",
           release->cuda.front().text() + ", " + release->cudnn,
           {"come as wheels with tensorflow[and-cuda]", "随 tensorflow[and-cuda] 的 wheel 安装"},
           {},
           false});
      if (const auto* toolkit = known().toolkit(release->cuda.front());
          toolkit != nullptr && sm_number(nvidia.front()->arch) > toolkit->newest_sm)
        plan.links.push_back(
            {"kernels",
             nvidia.front()->arch,
             {"newer than this CUDA can compile for: whether TensorFlow runs here is unknown",
              "比此 CUDA 支持的芯片更新：TensorFlow 能否运行未知"},
             {"a TensorFlow built with CUDA 12.8 or newer", "用 CUDA 12.8 以上编译的 TensorFlow"},
             false});
    }
    plan.packages = {
        fmt::format("tensorflow{}=={}.*", nvidia.empty() ? "" : "[and-cuda]", release->version.text())};
  }
  const Version oldest = release == nullptr ? *Version::parse("3.10") : release->oldest_python;
  const Version newest = release == nullptr ? *Version::parse("3.12") : release->newest_python;
  plan.links.push_back({"TensorFlow",
                        plan.packages.front(),
                        {fmt::format("the newest that fits ({})", origin("tensorflow")),
                         fmt::format("符合要求的最新版本（{}）", origin("tensorflow"))},
                        {},
                        false});
  const Version python = choose_python(facts, oldest, newest);
  plan.python = python.text();
  plan.links.push_back(python_link(facts, python, oldest.text() + " - " + newest.text()));
}

void plan_jax(InstallPlan& plan, const Facts& facts) {
  const auto nvidia = computing_gpus(facts, Vendor::nvidia), amd = computing_gpus(facts, Vendor::amd);
  plan.links.push_back(gpu_link(nvidia.empty() ? amd : nvidia));
  plan.check = "import jax; print(jax.__version__, jax.devices())";
  std::string extra, pinned;
  if (!nvidia.empty()) {
    const auto driver = Version::parse(facts.nvidia().module_version);
    const Known::JaxCuda* chosen = nullptr;
    for (const Known::JaxCuda& row : known().jax_cuda) {
      const bool chips = std::all_of(nvidia.begin(), nvidia.end(), [&](const Gpu* gpu) {
        return gpu->arch.empty() || sm_number(gpu->arch) >= row.oldest_sm;
      });
      if (chips && (!driver || *driver >= row.driver)) chosen = &row;
    }
    const auto needed = chosen != nullptr ? chosen->driver : known().jax_cuda.front().driver;
    plan.links.push_back(nvidia_driver_link(facts, needed));
    need_nvidia(plan, needed);
    if (chosen == nullptr) {
      plan.links.back().broken = true;
      plan.links.back().reason = {
          fmt::format("JAX needs {} or newer and a GPU from sm_{} on ({})", needed.text(),
                      known().jax_cuda.front().oldest_sm, origin("jax")),
          fmt::format("JAX 需要 {} 以上的驱动和 sm_{} 以上的 GPU（{}）", needed.text(),
                      known().jax_cuda.front().oldest_sm, origin("jax"))};
      return;
    }
    plan.links.push_back(
        {"CUDA",
         std::to_string(chosen->major),
         {"comes as wheels with the plugin", "随插件的 wheel 安装"},
         chosen->major < known().jax_cuda.back().major
             ? Text{fmt::format("CUDA {} needs a driver from {} on and a GPU from sm_{} on",
                                known().jax_cuda.back().major, known().jax_cuda.back().driver.text(),
                                known().jax_cuda.back().oldest_sm),
                    fmt::format("CUDA {} 需要 {} 以上的驱动和 sm_{} 以上的 GPU",
                                known().jax_cuda.back().major, known().jax_cuda.back().driver.text(),
                                known().jax_cuda.back().oldest_sm)}
             : Text{},
         false});
    extra = fmt::format("[cuda{}]", chosen->major);
  } else if (!amd.empty()) {
    const Known::Rocm* row = plan_rocm(plan, facts, amd, &Known::Rocm::jax, "JAX");
    if (row == nullptr) return;
    if (row->version.at(0) < 7) {
      plan.links.back().broken = true;
      plan.links.back().reason = {"JAX's wheels for AMD (jax[rocm7-local]) need ROCm 7",
                                  "JAX 的 AMD wheel（jax[rocm7-local]）需要 ROCm 7"};
      return;
    }
    extra = "[rocm7-local]";
    pinned = row->jax;
  }
  // The newest JAX that a Python here may have, else the newest.
  Version oldest = known().jax_python.back().oldest;
  std::string below;
  const auto here = pythons(facts);
  for (auto row = known().jax_python.rbegin(); row != known().jax_python.rend() && !here.empty(); ++row) {
    if (here.front() >= row->oldest) {
      oldest = row->oldest;
      break;
    }
    below = row->version.text();
  }
  if (!pinned.empty()) below.clear();
  plan.packages = {"jax" + extra + (pinned.empty() ? below.empty() ? "" : "<" + below : "==" + pinned)};
  plan.links.push_back({"JAX",
                        plan.packages.front(),
                        {fmt::format("the newest for this Python and GPU ({})", origin("jax")),
                         fmt::format("支持此 Python 和 GPU 的最新版本（{}）", origin("jax"))},
                        below.empty() ? Text{}
                                      : Text{fmt::format("{} needs a newer Python", below),
                                             fmt::format("{} 需要更新的 Python", below)},
                        false});
  const Version python = choose_python(facts, oldest, std::nullopt);
  plan.python = python.text();
  plan.links.push_back(python_link(facts, python, oldest.text() + " +"));
}

void plan_athanor(InstallPlan& plan, const Facts& facts) {
  const auto gpus = computing_gpus(facts);
  plan.links.push_back(gpu_link(gpus));
  plan.packages = {"g++", "cmake", "ninja-build", "ccache", "pkg-config", "git"};
  if (gpus.empty()) {
    plan.links.push_back({"backend", "CPU", {"always there", "始终可用"}, {}, false});
  } else {
    const Vendor vendor = gpus.front()->vendor;
    const char* icd = vendor == Vendor::amd      ? "mesa-opencl-icd"
                      : vendor == Vendor::nvidia ? "nvidia-opencl-icd"
                                                 : "intel-opencl-icd";
    if (vendor == Vendor::nvidia) {
      plan.links.push_back(
          {"driver",
           facts.nvidia().module_version.empty() ? "NVIDIA" : "NVIDIA " + facts.nvidia().module_version,
           {"any that serves the card", "任何支持该显卡的版本"},
           {},
           false});
      need_nvidia(plan, std::nullopt);
    } else {
      plan.links.push_back({"driver",
                            gpus.front()->driver.empty() ? "-" : gpus.front()->driver,
                            {"the kernel's own", "内核自带"},
                            {},
                            false});
      plan.driver_test = "ls /dev/dri/renderD* >/dev/null 2>&1";
      plan.driver_hint = "no driver runs the GPU; athanor doctor says why";
    }
    plan.links.push_back(
        {"OpenCL",
         icd,
         {"Athanor uses GPUs of every vendor through OpenCL 1.2", "Athanor 通过 OpenCL 1.2 使用各厂商的 GPU"},
         {"CUDA and HIP backends are planned", "CUDA 和 HIP 后端在计划中"},
         false});
    // NVIDIA's driver brings its own.
    if (vendor != Vendor::nvidia) plan.packages.emplace_back(icd);
    plan.packages.emplace_back("ocl-icd-libopencl1");
  }
  plan.links.push_back({"Athanor", ATHANOR_VERSION, {"this one", "当前版本"}, {}, false});
}

}  // namespace

const Link* InstallPlan::broken() const {
  const auto link = std::find_if(links.begin(), links.end(), [](const Link& one) { return one.broken; });
  return link == links.end() ? nullptr : &*link;
}

InstallPlan make_plan(const Facts& facts, const std::string& goal) {
  InstallPlan plan;
  plan.goal = goal;
  if (goal == "pytorch")
    plan_pytorch(plan, facts);
  else if (goal == "tensorflow")
    plan_tensorflow(plan, facts);
  else if (goal == "jax")
    plan_jax(plan, facts);
  else if (goal == "athanor")
    plan_athanor(plan, facts);
  else
    throw Error(ErrorCode::usage, fmt::format("there is no plan for '{}'", goal), "--plan",
                nearest_hint(goal, {"pytorch", "tensorflow", "jax", "athanor"}));
  if (plan.image.empty())
    plan.image = plan.python.empty() ? "debian:12" : fmt::format("python:{}-slim", plan.python);
  return plan;
}

}  // namespace athanor::doctor
