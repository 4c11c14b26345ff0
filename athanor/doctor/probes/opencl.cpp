// OpenCL's loader and drivers, the files of /dev/dri, Intel's GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/opencl_drivers.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

const AddProbe intel("intel.driver", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::intel);
  for (const Gpu* gpu : gpus)
    if (gpu->driver.empty())
      return fail()
          .seen(fmt::format("/sys/bus/pci/devices/{}/driver", gpu->address), "-")
          .with("gpu", gpu->title());
  return gpus.empty() ? skip() : pass();
});

const AddProbe render("gpu.render.permission", [](const Facts& f) {
  bool any = false;
  for (const Gpu* gpu : computing_gpus(f)) {
    if (gpu->render_node.empty() || gpu->vendor == Vendor::nvidia || !f.machine().exists(gpu->render_node))
      continue;
    any = true;
    if (f.machine().access(gpu->render_node) != Access::read_write)
      return not_permitted(f, gpu->render_node).with("gpu", gpu->title());
  }
  return any ? pass() : skip();
});

// The GPUs that Athanor would use: an integrated one beside a discrete one need not have a driver.
std::vector<const Gpu*> opencl_gpus(const Facts& f) {
  auto gpus = computing_gpus(f);
  const bool discrete = !gpus.empty() && !gpus.front()->integrated;
  std::erase_if(gpus, [&](const Gpu* gpu) {
    // CUDA or HIP serve it, or will when their compiler is installed; other checks report that.
    const bool by_another = gpu->opencl.empty() && (!gpu->device.empty() || !gpu->without_compiler.empty());
    return by_another || (discrete && gpu->integrated) ||
           opencl_use(f, *gpu).state == OpenclUse::State::impossible;
  });
  return gpus;
}

const AddProbe opencl_in_wsl("wsl.opencl", [](const Facts& f) {
  if (!f.system().wsl) return skip();
  for (const Gpu& gpu : f.gpus())
    if (gpu.device.empty() && gpu.without_compiler.empty() &&
        opencl_use(f, gpu).state == OpenclUse::State::impossible)
      return !own_runtime_asked(f, gpu) ? runtime_not_recorded(gpu)
                                        : warn().seen("/dev/dxg", gpu.title()).with("gpu", gpu.title());
  return f.gpus().empty() ? skip() : pass();
});

const AddProbe loader("opencl.loader", [](const Facts& f) {
  const auto gpus = opencl_gpus(f);
  if (gpus.empty()) return skip();
  if (const std::string path = opencl_loader(f); !path.empty()) return pass().seen("libOpenCL.so.1", path);
  if (!f.machine().covers_libraries()) return not_recorded("/usr/lib");
  return fail().seen("libOpenCL.so.1", "-").with("gpu", gpus.front()->title());
});

// Adds the installed drivers as evidence, and {path} and {found}.
Finding with_drivers(const Facts& f, Finding finding) {
  std::vector<std::string> found;
  for (const OpenclDriver& one : opencl_drivers(f)) {
    finding.seen(one.file, one.library);
    found.push_back(one.name());
  }
  const std::string folder = opencl_vendors_folder(f);
  if (found.empty()) finding.seen(folder + "/*.icd", "-");
  return finding.with("path", folder).with("found", found.empty() ? "-" : join(found));
}

const AddProbe icd("opencl.icd", [](const Facts& f) {
  const auto gpus = opencl_gpus(f);
  if (gpus.empty() || f.variable("OCL_ICD_FILENAMES")) return skip();
  for (const Gpu* gpu : gpus) {
    if (opencl_use(f, *gpu).state != OpenclUse::State::none) continue;
    if (!f.machine().covers(opencl_vendors_folder(f))) return not_recorded("/etc");
    const std::string& driver = f.nvidia().version;
    return with_drivers(f, fail())
        .with("gpu", gpu->title())
        .with("vendor", to_string(gpu->vendor))
        .with("rusticl", rusticl_enable_with(f, rusticl_driver(*gpu)))
        .with("branch", driver.empty() ? "VERSION" : split(driver, '.').front());
  }
  return pass();
});

const AddProbe rusticl("opencl.rusticl", [](const Facts& f) {
  bool any = false;
  for (const Gpu* gpu : opencl_gpus(f)) {
    const OpenclUse use = opencl_use(f, *gpu);
    any = any || use.state != OpenclUse::State::none;
    if (use.state != OpenclUse::State::hidden) continue;
    const auto now = f.variable(use.variable);
    return with_drivers(f, fail())
        .seen("$" + use.variable, now ? shortened(*now) : "-")
        .with("gpu", gpu->title())
        .with("driver", rusticl_driver(*gpu))
        .with("variable", use.variable)
        .with("value", use.value);
  }
  return any ? pass() : skip();
});

const AddProbe listed("opencl.device", [](const Facts& f) {
  if (!opencl_answered(f)) return skip();
  // If only some devices are hidden, this is intended.
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                           "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "OCL_ICD_FILENAMES"})
    if (f.variable(name)) return skip();
  const auto gpus = opencl_gpus(f);
  for (const Gpu* gpu : gpus)
    if (gpu->opencl.empty()) {
      if (opencl_use(f, *gpu).state != OpenclUse::State::served) continue;  // reported by others
      return with_drivers(f, gpu->integrated ? warn() : fail()).with("gpu", gpu->title());
    }
  return gpus.empty() ? skip() : pass();
});

const AddProbe library("opencl.icd.library", [](const Facts& f) {
  const auto all = opencl_drivers(f);
  for (const OpenclDriver& one : all)
    if (!one.there)
      return fail()
          .seen(one.file, one.library)
          .with("path", one.file)
          .with("kind", one.file.starts_with("/etc/OpenCL/vendors/") ? "system" : "variable")
          .with("icd_file", one.file.substr(one.file.rfind('/') + 1))
          .with("variable", "OCL_ICD_VENDORS")
          .with("library", one.library.empty() ? "-" : one.library);
  return all.empty() ? skip() : pass();
});

}  // namespace
}  // namespace athanor::doctor
