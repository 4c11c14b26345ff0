// What should work: a goal passes if it applies; the graph shows whether something keeps it from working.
#include <algorithm>

#include "athanor/doctor/contradictions.h"
#include "athanor/doctor/opencl_drivers.h"
#include "athanor/doctor/probes/installed.h"
#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/torch_kernels.h"

namespace athanor::doctor {
namespace {

const AddProbe self_test("device.self_test",
                         [](const Facts& f) { return f.self_test() ? f.self_test()() : skip(); });

const AddProbe examined("device.examined",
                        [](const Facts& f) { return f.examined() ? f.examined()() : skip(); });

const AddProbe cpu("works.athanor", [](const Facts&) { return pass(); });

const AddProbe gpu("works.athanor.gpu", [](const Facts& f) {
  std::vector<Gpu> used, without_driver;
  for (const Gpu& gpu : f.gpus()) {
    // The answer of a runtime counts more than files.
    const bool served = opencl_use(f, gpu).state == OpenclUse::State::served && gpu.opencl_hidden_by.empty();
    if (!gpu.device.empty() || (served && !opencl_answered(f)))
      (gpu.device.empty() && !gpu.is_driven() ? without_driver : used).push_back(gpu);
  }
  if (f.gpus().empty()) return skip();
  if (used.empty() && !opencl_answered(f) && !f.machine().covers(opencl_vendors_folder(f)))
    return not_recorded("/etc");
  for (const Gpu& gpu : f.gpus())
    if (used.empty() && gpu.without_compiler.empty() &&
        opencl_use(f, gpu).state == OpenclUse::State::impossible && !own_runtime_asked(f, gpu))
      return runtime_not_recorded(gpu);
  // Without the runtimes' answers in the record, only files show it: detect then reports it as unknown.
  const bool by_files = std::ranges::any_of(used, [](const Gpu& gpu) { return gpu.device.empty(); });
  if (used.empty() && !without_driver.empty()) return fail().seen("devices", counted_titles(without_driver));
  return used.empty()
             ? fail()
             : pass().seen("devices", counted_titles(used) + (by_files ? " (by installed files)" : ""));
});

bool lacks_what_it_requires(const Facts& f, const TorchBuild& torch) {
  const auto all = contradictions(f.machine(), *torch.environment).found;
  return std::any_of(all.begin(), all.end(),
                     [](const Contradiction& one) { return one.severe && one.by->name == "torch"; });
}

// Whether each torch for AMD's GPUs is newer than the data, and no earlier one had kernels for the GPUs here.
bool kernels_unknown(const Facts& f) {
  if (f.variable("HSA_OVERRIDE_GFX_VERSION")) return false;
  bool unknown = false;
  for (const TorchBuild& torch : f.torches()) {
    if (torch.rocm.empty()) continue;
    for (const Gpu* gpu : computing_gpus(f, Vendor::amd)) {
      if (gpu->arch.empty() || Compatibility::known().torch_had(gpu->arch) ||
          torch_kernels(torch).has(gpu->arch) != Compatibility::Has::unknown)
        return false;
      unknown = true;
    }
  }
  return unknown;
}

Finding torch_on(const Facts& f, Vendor vendor) {
  const auto gpus = computing_gpus(f, vendor);
  if (f.torches().empty()) return skip();
  Finding finding = pass();
  for (const TorchBuild& torch : f.torches())
    // A torch that lacks something that it requires is reported by python.requirements.
    if (vendor_of(torch) == vendor && !lacks_what_it_requires(f, torch))
      finding.seen(torch.source, torch.version + ", " + torch.environment->prefix);
  // Nothing is known to be in the way, nor that it works: python.torch.gfx reports that.
  if (vendor == Vendor::amd && kernels_unknown(f)) return skip();
  // In WSL, the GPU of Windows is not always visible. An obstacle to torch is then a problem; without one,
  // nothing is known.
  if (gpus.empty()) return f.system().wsl && !finding.evidence.empty() ? fail() : skip();
  if (!finding.evidence.empty()) return finding;
  // Nobody wants torch on a small integrated GPU alone.
  return gpus.front()->integrated ? skip() : fail();
}

const AddProbe torch_amd("works.pytorch.amd", [](const Facts& f) { return torch_on(f, Vendor::amd); });
const AddProbe torch_nvidia("works.pytorch.nvidia",
                            [](const Facts& f) { return torch_on(f, Vendor::nvidia); });
const AddProbe torch_intel("works.pytorch.intel", [](const Facts& f) { return torch_on(f, Vendor::intel); });

Finding framework_on(const Facts& f, Vendor vendor, const char* package) {
  const auto gpus = computing_gpus(f, vendor);
  // Nobody wants a framework on a small integrated GPU alone.
  if (gpus.empty() || (vendor == Vendor::amd && gpus.front()->integrated)) return skip();
  Finding finding = skip();
  for (const PythonEnvironment& environment : f.pythons())
    if (const Distribution* one = environment.find(package)) {
      finding.status = Status::pass;
      finding.seen(one->folder, one->version + ", " + environment.prefix);
    }
  return finding;
}

const AddProbe tensorflow("works.tensorflow",
                          [](const Facts& f) { return framework_on(f, Vendor::nvidia, "tensorflow"); });
const AddProbe tensorflow_amd("works.tensorflow.amd",
                              [](const Facts& f) { return framework_on(f, Vendor::amd, "tensorflow-rocm"); });

// JAX computes on the GPUs of the vendors whose plugins are installed.
Finding jax_on(const Facts& f, Vendor vendor) {
  Finding finding = framework_on(f, vendor, "jax");
  if (finding.status != Status::pass) return finding;
  const char* kind = vendor == Vendor::nvidia ? "cuda" : "rocm";
  const bool any = std::any_of(f.pythons().begin(), f.pythons().end(), [&](const PythonEnvironment& one) {
    return one.find("jax") != nullptr && has_jax_plugin(one, kind);
  });
  return any ? finding : fail();
}

const AddProbe jax("works.jax", [](const Facts& f) { return jax_on(f, Vendor::nvidia); });
const AddProbe jax_amd("works.jax.amd", [](const Facts& f) { return jax_on(f, Vendor::amd); });

}  // namespace
}  // namespace athanor::doctor
