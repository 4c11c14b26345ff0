// ONNX Runtime: which of its packages is installed, and which CUDA and cuDNN the GPU package needs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/text.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/probes/installed.h"

namespace athanor::doctor {
namespace {

const AddProbe onnx_both("python.onnxruntime", [](const Facts& f) {
  const auto all = installed(f, "onnxruntime");
  for (const Installed& one : all)
    for (const char* other : {"onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-directml"})
      if (const Distribution* package = one.environment->find(other))
        return finding_of(Status::fail, one)
            .seen(package->folder, package->version)
            .with("gpu_package", other);
  return all.empty() ? skip() : pass();
});

struct Needs {
  uint32_t cuda = 0, cudnn = 0;  // major versions; 0: not known
};

// Read from the wheel itself ("Requires-Dist: nvidia-cudnn-cu12~=9.0; extra == 'cudnn'"), else from the data.
Needs needs_of(const Facts& f, const Installed& one) {
  constexpr std::string_view cudnn = "nvidia-cudnn-cu";
  for (const auto& [field, value] :
       parse_metadata(f.machine().read(one.package->folder + "/METADATA").value_or(""))) {
    if (field != "Requires-Dist" || !value.starts_with(cudnn)) continue;
    Needs needs;
    const char* const end = value.data() + value.size();
    const auto number = std::from_chars(value.data() + cudnn.size(), end, needs.cuda);
    const size_t version = value.find_first_of("0123456789", static_cast<size_t>(number.ptr - value.data()));
    if (version != std::string::npos) std::from_chars(value.data() + version, end, needs.cudnn);
    if (needs.cuda > 0 && needs.cudnn > 0) return needs;
  }
  const auto* row = Compatibility::known().onnxruntime_gpu(one.version);
  return row == nullptr ? Needs{} : Needs{row->cuda, row->cudnn};
}

// Whether a library is installed: as a wheel, in a conda environment or on the system.
bool has_library(const Facts& f, const Installed& one, const std::vector<std::string>& wheels, uint32_t major,
                 const std::string& file) {
  for (const std::string& wheel : wheels)
    if (const Distribution* found = one.environment->find(wheel)) {
      const auto version = Version::parse(found->version);
      if (version && version->at(0) == major) return true;
    }
  return !f.machine().libraries(file + "*").empty() ||
         !f.machine().glob(one.environment->prefix + "/lib/" + file + "*").empty();
}

const AddProbe onnx_gpu("python.onnxruntime.gpu", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::nvidia);
  const auto with_gpu = installed(f, "onnxruntime-gpu"), plain = installed(f, "onnxruntime");
  if (gpus.empty() || (with_gpu.empty() && plain.empty())) return skip();
  bool unknown = false;
  for (const Installed& one : with_gpu) {
    const Needs needs = needs_of(f, one);
    unknown = unknown || needs.cuda == 0;
    if (needs.cuda == 0) continue;
    std::vector<std::string> missing, packages;
    // From CUDA 13 on, the names of NVIDIA's packages have no such suffix, except cuDNN's.
    const std::string cudnn = fmt::format("nvidia-cudnn-cu{}", needs.cuda);
    const std::string cublas =
        needs.cuda < 13 ? fmt::format("nvidia-cublas-cu{}", needs.cuda) : "nvidia-cublas";
    if (!has_library(f, one, {cublas}, needs.cuda, fmt::format("libcublasLt.so.{}", needs.cuda)))
      missing.push_back(fmt::format("CUDA {}", needs.cuda)), packages.push_back(cublas);
    if (!has_library(f, one, {cudnn}, needs.cudnn, fmt::format("libcudnn.so.{}", needs.cudnn)))
      missing.push_back(fmt::format("cuDNN {}", needs.cudnn)),
          packages.push_back(fmt::format("{}=={}.*", cudnn, needs.cudnn));
    if (missing.empty()) continue;
    return finding_of(Status::fail, one)
        .seen(one.environment->prefix, join(packages) + ": -")
        .with("gpu", gpus.front()->title())
        .with("package", "onnxruntime-gpu")
        .with("kind", one.version >= *Version::parse("1.21") ? "extras" : "libraries")
        .with("missing", join(missing));
  }
  for (const Installed& one : plain) {
    const auto& there = one.environment->distributions;
    const bool other = std::any_of(there.begin(), there.end(), [](const Distribution& package) {
      return package.name.starts_with("onnxruntime-") && package.name != "onnxruntime-extensions";
    });
    if (other) continue;
    return finding_of(Status::fail, one)
        .with("gpu", gpus.front()->title())
        .with("package", "onnxruntime")
        .with("kind", "cpu")
        .with("missing", "onnxruntime-gpu");
  }
  return unknown ? skip() : pass();
});

const AddProbe onnx_driver("python.onnxruntime.driver", [](const Facts& f) {
  const auto there = Version::parse(f.nvidia().version);
  const auto all = installed(f, "onnxruntime-gpu");
  for (const Installed& one : all) {
    const Needs needs = needs_of(f, one);
    const auto cuda = Version::parse(std::to_string(needs.cuda));
    const auto needed = cuda ? Compatibility::known().oldest_driver(*cuda) : std::nullopt;
    if (!there || !needed || *there >= *needed) continue;
    return finding_of(Status::fail, one)
        .seen(f.nvidia().source, f.nvidia().version)
        .with("needed", needed->text())
        .with("driver", f.nvidia().version)
        .with("cuda", std::to_string(needs.cuda));
  }
  return all.empty() || !there ? skip() : pass();
});

}  // namespace
}  // namespace athanor::doctor
