#include "athanor/kernels/gpu/gpu_access.h"

#include <map>

namespace athanor {
namespace {

std::map<uint8_t, std::function<GpuAccess(int)>>& registered() {
  static std::map<uint8_t, std::function<GpuAccess(int)>> all;
  return all;
}

}  // namespace

std::optional<GpuAccess> gpu_access(Device device) {
  const auto found = registered().find(device.provider);
  return found == registered().end() ? std::nullopt : std::optional(found->second(device.index));
}

void register_gpu_access(uint8_t provider, std::function<GpuAccess(int index)> open) {
  registered()[provider] = std::move(open);
}

}  // namespace athanor
