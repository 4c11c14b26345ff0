// The requirements of packages on each other.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/contradictions.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

constexpr size_t most_shown = 6;

const AddProbe requirements_probe("python.requirements", [](const Facts& f) {
  Finding worst = skip(), unknown = skip();
  bool any = false;
  for (const PythonEnvironment& environment : f.pythons()) {
    if (environment.broken || environment.distributions.empty()) continue;
    any = true;
    const Contradictions all = contradictions(f.machine(), environment);
    for (const std::string& one : all.unknown)
      if (unknown.evidence.size() < most_shown) unknown.seen(environment.prefix, shortened(one));
    if (all.found.empty() || worst.status == Status::fail) continue;
    const Contradiction& first = all.found.front();
    if (!first.severe && worst.status == Status::warn) continue;
    worst = first.severe ? fail() : warn();
    for (const Contradiction& one : all.found)
      if (worst.evidence.size() < most_shown)
        worst.seen(one.by->folder, fmt::format("{}; {}", shortened(one.requirement), one.found()));
    worst.with("package", first.by->name)
        .with("version", first.by->version)
        .with("needed", shortened(first.requirement))
        .with("requirement", first.version_wanted)
        .with("found", first.found())
        .with("count", std::to_string(all.found.size()))
        .with("environment", environment.prefix)
        .with("python", environment.python())
        .with("others", join(first.others))
        .with("apart", first.others.empty() ? "no" : "yes")
        .with("missing", first.there == nullptr ? "yes" : "no");
  }
  if (worst.status != Status::skip) return worst;
  if (!unknown.evidence.empty()) return unknown;
  return any ? pass() : skip();
});

}  // namespace
}  // namespace athanor::doctor
