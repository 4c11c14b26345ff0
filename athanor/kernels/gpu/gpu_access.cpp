#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor {

std::optional<GpuAccess> gpu_access(Device device) {
  auto* backend = dynamic_cast<KernelLanguageBackend*>(&provider_of(device));
  return backend == nullptr ? std::nullopt : std::optional(backend->access(device.index));
}

}  // namespace athanor
