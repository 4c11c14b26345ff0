#include "athanor/doctor/torch_kernels.h"

#include <fmt/format.h>

namespace athanor::doctor {
namespace {

constexpr std::string_view device_package = "amd-torch-device-", libraries_package = "rocm-sdk-libraries-";

}  // namespace

Compatibility::Has TorchKernels::has(std::string_view gfx) const {
  if (targets.contains(std::string(gfx))) return Compatibility::Has::yes;
  return some ? Compatibility::Has::unknown : Compatibility::Has::no;
}

TorchKernels torch_kernels(const TorchBuild& torch) {
  const Compatibility& known = Compatibility::known();
  TorchKernels kernels;
  for (const Distribution& one : torch.environment->distributions)
    // "gfx1030"; AOTriton's packages for a family ("gfx11", "gfx12-0") are not everything that a chip needs.
    if (one.name.starts_with(device_package) && one.name.size() >= device_package.size() + 6 &&
        one.name.find('-', device_package.size()) == std::string::npos)
      kernels.targets.insert(one.name.substr(device_package.size())), kernels.source = one.folder;
  if (!kernels.targets.empty()) {
    kernels.some = false;
    return kernels;
  }
  for (const Distribution& one : torch.environment->distributions)
    if (one.name.starts_with(libraries_package))
      if (const auto family = known.therock_families.find(one.name.substr(libraries_package.size()));
          family != known.therock_families.end())
        return {family->second, false, one.folder};
  const auto version = Version::parse(torch.version), rocm = Version::parse(torch.rocm);
  const auto* row = version && rocm ? known.torch_targets(*version, *rocm) : nullptr;
  kernels.source =
      fmt::format("{}, {}", known.origins.at("pytorch").source, known.origins.at("pytorch").date);
  if (row != nullptr) kernels.targets = row->targets, kernels.some = row->some;
  return kernels;
}

const Distribution* pip_rocm(const PythonEnvironment& environment) {
  return environment.find("rocm-sdk-core");
}

}  // namespace athanor::doctor
