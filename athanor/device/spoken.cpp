#include "athanor/device/spoken.h"

#include <map>

namespace athanor {

std::string spoken(const std::string& source) {
  static const std::map<std::string, std::string> names{
      {"cuda", "CUDA"}, {"drm", "DRM"},       {"hip", "HIP"}, {"kfd", "KFD"},   {"nvidia", "/proc"},
      {"nvml", "NVML"}, {"opencl", "OpenCL"}, {"pci", "PCI"}, {"proc", "/proc"}};
  const auto found = names.find(source);
  return found == names.end() ? source : found->second;
}

}  // namespace athanor
