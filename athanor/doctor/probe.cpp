#include "athanor/doctor/probe.h"

#include <array>

#include "athanor/base/error.h"
#include "athanor/base/startup_registry.h"

namespace athanor::doctor {
namespace {

using Probes = std::map<std::string, Probe, std::less<>>;
StartupRegistry<Probes>& registered() {
  static StartupRegistry<Probes> all;
  return all;
}

}  // namespace

const std::map<std::string, Probe, std::less<>>& probes() { return registered().list(); }

AddProbe::AddProbe(const char* id, Probe probe) {
  registered().add([&](Probes& all) {
    if (!all.emplace(id, probe).second)
      throw Error(ErrorCode::internal, std::string("two probes for the check ") + id);
  });
}

const char* to_string(Status status) {
  static constexpr std::array names = {"pass", "warn", "fail", "skip"};
  return names.at(static_cast<size_t>(status));
}

}  // namespace athanor::doctor
