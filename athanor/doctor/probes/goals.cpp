// What should work: a goal passes where it applies; the graph says whether something keeps it from working.
#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/torch_kernels.h"

namespace athanor::doctor {
namespace {

const AddProbe self_test("device.self_test",
                         [](const Facts& f) { return f.self_test() == nullptr ? skip() : f.self_test()(); });

const AddProbe cpu("works.athanor", [](const Facts&) { return pass(); });

const AddProbe gpu("works.athanor.gpu", [](const Facts& f) {
  Finding finding = pass();
  const auto gpus = computing_gpus(f);
  if (gpus.empty()) return skip();
  return finding.seen("PCI", gpus.front()->title());
});

// Every torch for AMD's GPUs is newer than the data, and none before it had kernels for the GPUs here.
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
  Finding finding = pass();
  for (const TorchBuild& torch : f.torches()) {
    const bool fits = vendor == Vendor::amd ? !torch.rocm.empty() : !torch.cuda.empty();
    if (fits) finding.seen(torch.source, torch.version + ", " + torch.environment->prefix);
  }
  // Nothing is known to be in the way, and nothing that it works either: python.torch.gfx says so.
  if (vendor == Vendor::amd && kernels_unknown(f)) return skip();
  if (f.torches().empty() || (gpus.empty() && !(f.system().wsl && !finding.evidence.empty()))) return skip();
  // A small integrated GPU alone is nothing that torch is wanted on.
  if (finding.evidence.empty() && gpus.front()->integrated) return skip();
  return finding;
}

const AddProbe torch_amd("works.pytorch.amd", [](const Facts& f) { return torch_on(f, Vendor::amd); });
const AddProbe torch_nvidia("works.pytorch.nvidia",
                            [](const Facts& f) { return torch_on(f, Vendor::nvidia); });

Finding framework_on(const Facts& f, Vendor vendor, const char* package) {
  const auto gpus = computing_gpus(f, vendor);
  // A small integrated GPU alone is nothing that a framework is wanted on.
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
const AddProbe jax("works.jax", [](const Facts& f) { return framework_on(f, Vendor::nvidia, "jax"); });
const AddProbe jax_amd("works.jax.amd", [](const Facts& f) { return framework_on(f, Vendor::amd, "jax"); });

}  // namespace
}  // namespace athanor::doctor
