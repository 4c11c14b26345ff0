#include "athanor/doctor/probe.h"

#include <array>

#include "athanor/base/error.h"

namespace athanor::doctor {
namespace {

std::map<std::string, Probe, std::less<>>& table() {
  static std::map<std::string, Probe, std::less<>> probes;
  return probes;
}

}  // namespace

const std::map<std::string, Probe, std::less<>>& probes() { return table(); }

AddProbe::AddProbe(const char* id, Probe probe) {
  if (!table().emplace(id, probe).second)
    throw Error(ErrorCode::internal, std::string("two probes for the check ") + id);
}

const char* to_string(Status status) {
  static constexpr std::array names = {"pass", "warn", "fail", "skip"};
  return names.at(static_cast<size_t>(status));
}

}  // namespace athanor::doctor
