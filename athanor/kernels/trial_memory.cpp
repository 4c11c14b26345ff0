#include "athanor/kernels/trial_memory.h"

#include <algorithm>
#include <limits>

#include "athanor/base/os/memory.h"
#include "athanor/kernels/operand_places.h"
#include "athanor/memory/limit.h"

namespace athanor {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
thread_local double limit = unlimited;

struct TrialMemory {
  double device = 0;  // operands and scratch memory
  double host = 0;    // the host's own operands, and two results

  TrialMemory(const KernelRequest& request, std::span<const Candidate> candidates) {
    const auto bytes_of = [](const OperandDesc& operand) {
      return static_cast<double>(reach_of(operand)) * static_cast<double>(size_of(operand.dtype));
    };
    for (const OperandDesc& input : request.inputs) device += bytes_of(input);
    for (const OperandDesc& output : request.outputs) {
      device += bytes_of(output);
      host += 2 * bytes_of(output);
    }
    host += device;
    size_t scratch = 0;
    for (const Candidate& candidate : candidates) scratch = std::max(scratch, candidate.scratch_bytes);
    device += static_cast<double>(scratch);
  }
};

}  // namespace

bool fits_trial(Device device, const KernelRequest& request, std::span<const Candidate> candidates) {
  const TrialMemory needed(request, candidates);
  if (needed.device + needed.host > limit) return false;
  const bool on_host = device == Device{};
  if (needed.device + (on_host ? needed.host : 0) > static_cast<double>(memory_left(device))) return false;
  const auto memory_of = [](Device one) {
    const uint64_t bytes = info_of(one).memory_bytes;
    return bytes == 0 ? unlimited : static_cast<double>(bytes);  // 0: it does not say
  };
  double left = memory_of(Device{});  // the container's, if this runs in one
  if (const os::MemorySize size = os::memory_size(); size.total > 0)
    left = std::min(left, static_cast<double>(size.available));
  if (needed.host + (on_host ? needed.device : 0) > left / 2) return false;
  if (on_host) return true;
  double free = memory_of(device) - static_cast<double>(memory_use(device).current);
  if (const auto now = backend_of(device).free_memory(device.index))
    free = std::min(free, static_cast<double>(*now));
  return needed.device <= free / 2;
}

TrialMemoryLimit::TrialMemoryLimit(uint64_t bytes) : outermost_(limit == unlimited) {
  if (outermost_) limit = static_cast<double>(bytes);
}

TrialMemoryLimit::~TrialMemoryLimit() {
  if (outermost_) limit = unlimited;
}

}  // namespace athanor
