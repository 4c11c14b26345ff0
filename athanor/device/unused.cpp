#include "athanor/device/unused.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/detect.h"
#include "athanor/device/groups.h"

namespace athanor {
namespace {

// Why Athanor does not use a GPU: a variable hides it, else OpenCL's reason, because OpenCL serves GPUs
// of every vendor.
std::string reason_of(const FoundDevice& gpu) {
  std::string reason;
  for (const BackendUse& use : gpu.backends) {
    if (!use.hidden_by.empty()) return use.reason;
    if (reason.empty() || use.backend == "opencl") reason = use.reason;
  }
  return reason;
}

bool is_used(const FoundDevice& gpu) {
  return std::any_of(gpu.backends.begin(), gpu.backends.end(),
                     [](const BackendUse& use) { return use.usable; });
}

}  // namespace

std::string unused_gpus(const Machine& machine, const std::vector<DeviceInfo>& listed) {
  const auto is_gpu = [](const auto& device) { return device.kind != "cpu"; };
  DetectOptions files_only;
  files_only.ask_runtimes = false;
  Detection found = detect(machine, files_only);
  const auto there = std::count_if(found.devices.begin(), found.devices.end(), is_gpu);
  // Counts a card once, even if several backends list it.
  const std::vector<size_t> cards = cards_of(listed);
  std::set<size_t> gpus;
  for (size_t i = 0; i < listed.size(); ++i)
    if (is_gpu(listed[i])) gpus.insert(cards[i]);
  if (there <= static_cast<int64_t>(gpus.size())) return {};
  if (machine.live()) found = detect(machine);
  std::vector<std::string> all;
  for (const FoundDevice& gpu : found.devices)
    if (is_gpu(gpu) && !is_used(gpu))
      all.push_back(fmt::format("{} is not used: {}", gpu.name, reason_of(gpu)));
  return all.empty() ? "" : join(all, "; ") + "; see athanor doctor";
}

}  // namespace athanor
