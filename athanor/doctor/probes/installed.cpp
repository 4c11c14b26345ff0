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

bool has_jax_plugin(const PythonEnvironment& environment, std::string_view kind) {
  for (const Distribution& one : environment.distributions)
    if (one.name.starts_with("jax-" + std::string(kind)) && one.name.ends_with("-plugin")) return true;
  // "0.4.13+cuda12.cudnn89", "0.4.30+rocm611"
  const Distribution* jaxlib = environment.find("jaxlib");
  return jaxlib != nullptr && local_version(jaxlib->version).starts_with(kind);
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
