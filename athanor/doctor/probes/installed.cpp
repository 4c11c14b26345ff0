#include "athanor/doctor/probes/installed.h"

namespace athanor::doctor {

std::vector<Installed> installed(const Facts& f, std::string_view name) {
  std::vector<Installed> all;
  for (const PythonEnvironment& environment : f.pythons())
    if (const Distribution* package = environment.find(name))
      if (const auto version = Version::parse(package->version))
        all.push_back({&environment, package, *version});
  return all;
}

Finding finding_of(Status status, const Installed& one) {
  Finding finding;
  finding.status = status;
  finding.seen(one.package->folder, one.package->version);
  return finding.with("version", one.package->version)
      .with("environment", one.environment->prefix)
      .with("python", one.environment->python());
}

}  // namespace athanor::doctor
