// PyTorch, and Python environments themselves.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/plan.h"
#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/torch_kernels.h"

namespace athanor::doctor {
namespace {

const AddProbe broken("python.broken", [](const Facts& f) {
  for (const PythonEnvironment& environment : f.pythons())
    if (environment.broken) {
      const std::string program = environment.prefix + "/bin/python";
      return fail()
          .seen(program, "-> " + f.machine().link(program).value_or("?"))
          .with("environment", environment.prefix)
          .with("path", program);
    }
  return f.pythons().empty() ? skip() : pass();
});

Finding torch_finding(Status status, const TorchBuild& torch) {
  Finding finding;
  finding.status = status;
  finding.seen(torch.source, torch.version + (torch.flavour.empty() ? "" : ", " + torch.flavour));
  return finding.with("version", torch.version)
      .with("environment", torch.environment->prefix)
      .with("flavour", torch.flavour);
}

// GPUs for which there are wheels of torch.
std::vector<const Gpu*> torch_gpus(const Facts& f) {
  auto gpus = computing_gpus(f, Vendor::nvidia);
  for (const Gpu* gpu : computing_gpus(f, Vendor::amd)) {
    const Compatibility& known = Compatibility::known();
    const bool official = std::any_of(known.torch_gfx.begin(), known.torch_gfx.end(), [&](const auto& row) {
      return !row.some && row.targets.contains(gpu->arch);
    });
    const bool served = official || gpu->arch.empty() || known.override_10_3_0.contains(gpu->arch) ||
                        known.therock_for({gpu->arch}, std::nullopt) != nullptr;
    // A small integrated GPU is no reason to need another torch.
    if (served && (!gpu->integrated || official)) gpus.push_back(gpu);
  }
  for (const Gpu* gpu : computing_gpus(f, Vendor::intel))
    if (Compatibility::known().xpu_targets.contains(gpu->arch)) gpus.push_back(gpu);
  return gpus;
}

const AddProbe flavour("python.torch.flavour", [](const Facts& f) {
  const auto gpus = torch_gpus(f);
  if (gpus.empty() || f.torches().empty()) return skip();
  const bool one_for_gpus = std::any_of(f.torches().begin(), f.torches().end(),
                                        [](const TorchBuild& torch) { return torch.flavour != "cpu"; });
  for (const TorchBuild& torch : f.torches()) {
    if (torch.flavour != "cpu") continue;
    // If another environment has one for the GPU, this is probably intended.
    if (one_for_gpus && !torch.environment->on_path) continue;
    Finding finding = torch_finding(Status::fail, torch);
    add_torch_wheel(f, *torch.environment, finding);
    return finding.with("gpu", gpus.front()->title());
  }
  return pass();
});

// GPUs of a vendor for which somebody may want a torch.
std::vector<const Gpu*> wanted_gpus(const Facts& f, Vendor vendor_wanted) {
  if (vendor_wanted != Vendor::intel) return computing_gpus(f, vendor_wanted);
  auto gpus = torch_gpus(f);
  std::erase_if(gpus, [](const Gpu* gpu) { return gpu->vendor != Vendor::intel; });
  return gpus;
}

constexpr Vendor torch_vendors[] = {Vendor::nvidia, Vendor::amd, Vendor::intel};

const AddProbe vendor("python.torch.vendor", [](const Facts& f) {
  const Gpu* here = nullptr;
  for (const Vendor one : torch_vendors)
    for (const Gpu* gpu : wanted_gpus(f, one)) here = here == nullptr ? gpu : here;
  if (f.torches().empty() || here == nullptr) return skip();
  for (const TorchBuild& torch : f.torches()) {
    const Vendor built_for = vendor_of(torch);
    if (built_for == Vendor::other || !torch.environment->on_path || !computing_gpus(f, built_for).empty())
      continue;
    Finding finding = torch_finding(Status::fail, torch);
    add_torch_wheel(f, *torch.environment, finding);
    return finding.with("gpu", here->title());
  }
  return pass();
});

// In a machine with GPUs of several vendors, each vendor needs a torch of its own.
const AddProbe unused("python.torch.unused", [](const Facts& f) {
  const bool any = std::any_of(f.torches().begin(), f.torches().end(), [&](const TorchBuild& torch) {
    return vendor_of(torch) != Vendor::other && !computing_gpus(f, vendor_of(torch)).empty();
  });
  if (!any) return skip();
  const auto gpus = torch_gpus(f);
  for (const Gpu* gpu : gpus) {
    const auto serves = [&](const TorchBuild& torch) { return vendor_of(torch) == gpu->vendor; };
    if (gpu->integrated || std::any_of(f.torches().begin(), f.torches().end(), serves)) continue;
    Finding finding = warn();
    for (const TorchBuild& torch : f.torches())
      finding.seen(torch.source, torch.version + (torch.flavour.empty() ? "" : ", " + torch.flavour));
    return finding.with("gpu", gpu->title()).with("vendor", to_string(gpu->vendor));
  }
  return gpus.empty() ? skip() : pass();
});

const AddProbe gfx("python.torch.gfx", [](const Facts& f) {
  const Compatibility& known = Compatibility::known();
  bool any = false;
  Finding unknown = skip();
  for (const TorchBuild& torch : f.torches()) {
    if (torch.rocm.empty()) continue;
    const TorchKernels kernels = torch_kernels(torch);
    for (const Gpu* gpu : computing_gpus(f, Vendor::amd)) {
      any = true;
      // A wrong override has its own check.
      if (gpu->arch.empty() || f.variable("HSA_OVERRIDE_GFX_VERSION")) continue;
      const auto has = kernels.has(gpu->arch);
      if (has == Compatibility::Has::yes) continue;
      if (has == Compatibility::Has::unknown) {
        if (!known.torch_had(gpu->arch))
          unknown.seen(torch.source, fmt::format("{}: whether it has kernels for {} is not in the data of {}",
                                                 torch.version, gpu->title(), known.date));
        continue;
      }
      Finding finding = torch_finding(Status::fail, torch);
      add_torch_wheel(f, *torch.environment, finding);
      const TorchWheel wheel = torch_wheel(f, Version::parse(torch.environment->version));
      const auto rocm = Version::parse(torch.rocm);
      const auto wheel_rocm = wheel.flavour.starts_with("rocm")
                                  ? Version::parse(std::string_view(wheel.flavour).substr(4))
                                  : std::nullopt;
      const bool native = wheel_rocm && wheel.variable.empty();
      finding.seen(gpu->arch_source, gpu->arch)
          .seen(kernels.source, fmt::format("{}", fmt::join(kernels.targets, ", ")));
      finding.with("arch", gpu->arch).with("known", fmt::format("{}", fmt::join(kernels.targets, ", ")));
      finding.with("newer", native && !wheel.therock && rocm && *wheel_rocm > *rocm ? "yes" : "no");
      finding.with("therock", native && wheel.therock ? "yes" : "no");
      finding.with("overridable", known.override_10_3_0.contains(gpu->arch) ? "yes" : "no");
      return finding.with("variable", "HSA_OVERRIDE_GFX_VERSION").with("value", "10.3.0");
    }
  }
  if (!unknown.evidence.empty()) return unknown;
  return any ? pass() : skip();
});

const AddProbe sm("python.torch.sm", [](const Facts& f) {
  const Compatibility& known = Compatibility::known();
  bool any = false;
  Finding unknown = skip();
  for (const TorchBuild& torch : f.torches()) {
    const auto version = Version::parse(torch.version), cuda = Version::parse(torch.cuda);
    const auto kernels = version && cuda ? known.torch_sm(*version, *cuda) : std::nullopt;
    for (const Gpu* gpu : computing_gpus(f, Vendor::nvidia)) {
      const int number = sm_number(gpu->arch);
      if (!kernels) {
        if (cuda)
          unknown.seen(torch.source, fmt::format("{}: whether it has kernels for {} is not in the data of {}",
                                                 torch.version, gpu->title(), known.date));
        continue;
      }
      if (number == 0) continue;
      any = true;
      if (kernels->sm.run_on(number)) continue;
      Finding finding = torch_finding(Status::fail, torch);
      add_torch_wheel(f, *torch.environment, finding);
      finding.seen(gpu->arch_source, gpu->arch);
      return finding.with("arch", gpu->arch)
          .with("gpu", gpu->name)
          .with("known", fmt::format("sm_{}", fmt::join(kernels->sm.all, ", sm_")));
    }
  }
  if (!unknown.evidence.empty()) return unknown;
  return any ? pass() : skip();
});

const AddProbe driver("python.torch.driver", [](const Facts& f) {
  const auto driver_version = Version::parse(f.nvidia().version);
  if (!driver_version) return skip();
  bool any = false;
  for (const TorchBuild& torch : f.torches()) {
    const auto cuda = Version::parse(torch.cuda);
    const auto needed = cuda ? Compatibility::known().oldest_driver(*cuda) : std::nullopt;
    if (!needed) continue;
    any = true;
    if (*driver_version >= *needed) continue;
    Finding finding = torch_finding(Status::fail, torch);
    add_torch_wheel(f, *torch.environment, finding);
    finding.seen(f.nvidia().source, f.nvidia().version);
    return finding.with("driver", f.nvidia().version).with("needed", needed->text()).with("cuda", torch.cuda);
  }
  return any ? pass() : skip();
});

const AddProbe torch_python("python.torch.python", [](const Facts& f) {
  for (const TorchBuild& torch : f.torches()) {
    const auto version = Version::parse(torch.version), python = Version::parse(torch.environment->version);
    const auto* release = version ? Compatibility::find(Compatibility::known().pytorch, *version) : nullptr;
    if (release == nullptr || !python) continue;
    if (*python >= release->oldest_python && *python <= release->newest_python) continue;
    return torch_finding(Status::fail, torch)
        .seen(torch.environment->prefix + "/lib", "python" + torch.environment->version)
        .with("python_version", torch.environment->version)
        .with("oldest", release->oldest_python.text())
        .with("newest", release->newest_python.text());
  }
  return f.torches().empty() ? skip() : pass();
});

const AddProbe duplicate("python.libraries.duplicate", [](const Facts& f) {
  for (const PythonEnvironment& environment : f.pythons())
    for (const char* name : {"torch", "tensorflow", "jax", "jaxlib", "numpy", "onnxruntime", "triton"}) {
      const auto all = environment.all(name);
      if (all.size() < 2) continue;
      // The system's own packages behind a user's are normal, unless it is the same folder.
      const auto folder = [](const Distribution* one) {
        return one->folder.substr(0, one->folder.rfind('/'));
      };
      const bool same = folder(all[0]) == folder(all[1]);
      if (!same && environment.kind == "system") continue;
      return fail()
          .seen(all[0]->folder, all[0]->version)
          .seen(all[1]->folder, all[1]->version)
          .with("package", name)
          .with("environment", environment.prefix)
          .with("python", environment.python())
          .with("first", all[0]->folder)
          .with("second", all[1]->folder);
    }
  return f.pythons().empty() ? skip() : pass();
});

}  // namespace
}  // namespace athanor::doctor
