#include "athanor/train/run_device.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/kernels/choose_device.h"
#include "athanor/kernels/trust.h"

namespace athanor {
namespace {

DeviceChoice choice_for(const std::string& asked, const std::string& before) {
  if (asked == "auto" && !before.empty())
    for (const DeviceInfo& info : list_devices())
      if (to_string(info.device) == before) return {info.device, "the run was on it before"};
  try {
    return choose_device(asked);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::name && error.code() != ErrorCode::device) throw;
    throw Error(ErrorCode::usage, error.problem(), "--device", error.hint());
  }
}

}  // namespace

RunDevice choose_run_device(const std::string& asked, const std::string& before) {
  const DeviceChoice choice = choice_for(asked, before);
  require_examined(choice.device);
  std::string why = asked == "auto" || asked == "gpu" ? fmt::format("{}: {}", asked, choice.why)
                                                      : fmt::format("asked for with --device {}", asked);
  const DeviceInfo info = info_of(choice.device);
  if (auto note = info.properties.find("note"); note != info.properties.end())
    why += "; " + note->second.value;
  return {choice.device, why};
}

}  // namespace athanor
