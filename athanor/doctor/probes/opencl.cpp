// OpenCL's loader and drivers, the files of /dev/dri, Intel's GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
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

// The GPU that Athanor would use.
const Gpu* opencl_gpu(const Facts& f) {
  const auto gpus = computing_gpus(f);
  return gpus.empty() ? nullptr : gpus.front();
}

const AddProbe loader("opencl.loader", [](const Facts& f) {
  const Gpu* gpu = opencl_gpu(f);
  if (gpu == nullptr) return skip();
  for (const std::string& path : f.machine().libraries("libOpenCL.so*"))
    if (path.find(".so.1") != std::string::npos) return pass().seen("libOpenCL.so.1", path);
  return fail().seen("libOpenCL.so.1", "-").with("gpu", gpu->title());
});

std::string vendors_folder(const Facts& f) {
  const std::string folder = f.variable("OCL_ICD_VENDORS").value_or("/etc/OpenCL/vendors");
  return folder.empty() ? "/etc/OpenCL/vendors" : folder;
}

struct Icd {
  std::string file, library;
};

std::vector<Icd> icds(const Facts& f) {
  std::vector<Icd> all;
  for (const std::string& file : f.machine().glob(vendors_folder(f) + "/*.icd"))
    all.push_back({file, shortened(f.machine().read_line(file).value_or(""))});
  return all;
}

bool is_there(const Facts& f, const std::string& library) {
  if (library.starts_with("/")) return f.machine().exists(library);
  return !library.empty() && !f.machine().libraries(library).empty();
}

bool serves(Vendor vendor, const std::string& library) {
  const std::string name = library.substr(library.rfind('/') + 1);
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  // Mesa's drive AMD's and Intel's.
  if (has("Rusticl") || has("MesaOpenCL")) return vendor != Vendor::nvidia;
  if (vendor == Vendor::amd) return has("amdocl");
  if (vendor == Vendor::nvidia) return has("nvidia-opencl");
  return has("igdrcl") || has("intelocl");
}

const char* name_of(Vendor vendor) {
  return vendor == Vendor::amd ? "amd" : vendor == Vendor::nvidia ? "nvidia" : "intel";
}

const AddProbe icd("opencl.icd", [](const Facts& f) {
  const auto gpus = computing_gpus(f);
  if (gpus.empty() || f.variable("OCL_ICD_FILENAMES")) return skip();
  const auto all = icds(f);
  // An integrated GPU beside a discrete one may well have none.
  for (const Gpu* gpu : gpus) {
    if (gpu->integrated && !gpus.front()->integrated) continue;
    if (std::any_of(all.begin(), all.end(), [&](const Icd& one) {
          return serves(gpu->vendor, one.library) && is_there(f, one.library);
        }))
      continue;
    Finding finding = fail();
    std::vector<std::string> found;
    for (const Icd& one : all) {
      finding.seen(one.file, one.library);
      found.push_back(one.file.substr(one.file.rfind('/') + 1));
    }
    if (all.empty()) finding.seen(vendors_folder(f) + "/*.icd", "-");
    const std::string& driver = f.nvidia().module_version;
    return finding.with("gpu", gpu->title())
        .with("path", vendors_folder(f))
        .with("found", found.empty() ? "-" : join(found))
        .with("vendor", name_of(gpu->vendor))
        .with("branch", driver.empty() ? "VERSION" : split(driver, '.').front());
  }
  return pass();
});

const AddProbe library("opencl.icd.library", [](const Facts& f) {
  const auto all = icds(f);
  for (const Icd& one : all)
    if (!is_there(f, one.library))
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
