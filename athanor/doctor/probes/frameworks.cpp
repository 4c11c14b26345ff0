// TensorFlow and JAX.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/plan.h"
#include "athanor/doctor/probes/installed.h"

namespace athanor::doctor {
namespace {

// Adds that the data is older than a package: such a package is never called good or bad.
void add_unknown(Finding& unknown, const Installed& one, const std::string& what) {
  unknown.seen(one.package->folder, fmt::format("{} {}: {} is not in the data of {}", one.package->name,
                                                one.package->version, what, Compatibility::known().date));
}

const AddProbe tensorflow_gpu("python.tensorflow.gpu", [](const Facts& f) {
  const auto nvidia = computing_gpus(f, Vendor::nvidia), amd = computing_gpus(f, Vendor::amd);
  const auto all = installed(f, "tensorflow");
  if (all.empty() || (nvidia.empty() && amd.empty())) return skip();
  for (const Installed& one : all) {
    if (!nvidia.empty()) {
      const bool wheels = one.environment->find("nvidia-cudnn-cu12") != nullptr &&
                          one.environment->find("nvidia-cublas-cu12") != nullptr;
      const bool system =
          !f.machine().libraries("libcudnn.so*").empty() && !f.machine().libraries("libcublas.so*").empty();
      if (wheels || system) continue;
      return finding_of(Status::fail, one)
          .seen(one.package->folder.substr(0, one.package->folder.rfind('/')),
                "nvidia-cudnn-cu12, nvidia-cublas-cu12: -")
          .with("gpu", nvidia.front()->title())
          .with("vendor", "nvidia")
          .with("missing", "cuDNN, cuBLAS");
    }
    if (!amd.front()->integrated)
      return finding_of(Status::fail, one)
          .with("gpu", amd.front()->title())
          .with("vendor", "amd")
          .with("missing", "tensorflow-rocm");
  }
  return pass();
});

const AddProbe cudnn("python.tensorflow.cudnn", [](const Facts& f) {
  const auto all = installed(f, "tensorflow");
  if (computing_gpus(f, Vendor::nvidia).empty()) return skip();
  for (const Installed& one : all) {
    const auto* release = Compatibility::find(Compatibility::known().tensorflow, one.version);
    const Distribution* library = one.environment->find("nvidia-cudnn-cu12");
    if (release == nullptr || library == nullptr) continue;
    const auto needed = Version::parse(release->cudnn), there = Version::parse(library->version);
    // Within a major version, a newer one works.
    if (!needed || !there || (there->at(0) == needed->at(0) && there->first(2) >= needed->first(2))) continue;
    if (there->at(0) > needed->at(0) && there->at(0) > 9) continue;  // newer than the data knows
    return finding_of(Status::fail, one)
        .seen(library->folder, library->version)
        .with("needed", release->cudnn)
        .with("cudnn", library->version);
  }
  return all.empty() ? skip() : pass();
});

const AddProbe tensorflow_driver("python.tensorflow.driver", [](const Facts& f) {
  const Compatibility& known = Compatibility::known();
  const auto driver = Version::parse(f.nvidia().version);
  const auto all = installed(f, "tensorflow");
  Finding unknown = skip();
  for (const Installed& one : all) {
    const auto* release = Compatibility::find(known.tensorflow, one.version);
    if (release == nullptr && driver && !known.tensorflow.empty() &&
        one.version > known.tensorflow.back().version)
      add_unknown(unknown, one, "which driver it needs");
    if (release == nullptr || release->cuda.empty() || !driver) continue;
    const auto needed = known.oldest_driver(release->cuda.front());
    if (!needed || *driver >= *needed) continue;
    return finding_of(Status::fail, one)
        .seen(f.nvidia().source, f.nvidia().version)
        .with("needed", needed->text())
        .with("driver", f.nvidia().version)
        .with("cuda", release->cuda.front().text());
  }
  if (!unknown.evidence.empty()) return unknown;
  return all.empty() || !driver ? skip() : pass();
});

const AddProbe tensorflow_python("python.tensorflow.python", [](const Facts& f) {
  const auto all = installed(f, "tensorflow");
  for (const Installed& one : all) {
    const auto* release = Compatibility::find(Compatibility::known().tensorflow, one.version);
    const auto python = Version::parse(one.environment->version);
    if (release == nullptr || !python) continue;
    if (*python >= release->oldest_python && *python <= release->newest_python) continue;
    return finding_of(Status::fail, one)
        .with("python_version", one.environment->version)
        .with("oldest", release->oldest_python.text())
        .with("newest", release->newest_python.text());
  }
  return all.empty() ? skip() : pass();
});

const AddProbe tensorflow_rocm("python.tensorflow.rocm", [](const Facts& f) {
  const auto all = installed(f, "tensorflow-rocm");
  Finding unknown = skip();
  for (const Installed& one : all)
    for (const std::string& folder : f.rocm_folders()) {
      const std::string file = folder + "/.info/version";
      const auto rocm = Version::parse(f.machine().read_line(file).value_or(""));
      const auto* release = rocm ? Compatibility::known().rocm_release(*rocm) : nullptr;
      const auto newest = release == nullptr ? std::nullopt : Version::parse(release->tensorflow);
      if (rocm && !newest) add_unknown(unknown, one, "whether it works with ROCm " + rocm->text());
      if (!newest || one.version.first(2) <= newest->first(2)) continue;
      return finding_of(Status::fail, one)
          .seen(file, rocm->text())
          .with("rocm", rocm->first(2).text())
          .with("newest", newest->first(2).text());
    }
  if (!unknown.evidence.empty()) return unknown;
  return all.empty() ? skip() : pass();
});

// The packages that pip must install for JAX on these GPUs: {packages}, or with {old} = "0.5.0" that version
// and its plugin.
Finding with_jax(const Facts& f, Finding finding) {
  const Compatibility& known = Compatibility::known();
  std::string packages = "jax", old = "no";
  if (const auto gpus = computing_gpus(f, Vendor::nvidia); !gpus.empty()) {
    // The oldest one if the driver or the GPUs are too old for all. Other checks report that.
    const auto* row = jax_cuda_for(f, gpus);
    packages = fmt::format("jax[cuda{}]", (row != nullptr ? row : &known.jax_cuda.front())->major);
  } else if (!computing_gpus(f, Vendor::amd).empty()) {
    packages = fmt::format("jax[{}]", known.jax_rocm.back().extra);
    for (const auto& row : known.jax_rocm)
      if (const auto rocm = newest_rocm(f);
          rocm && row.major == rocm->version.at(0) && &row != &known.jax_rocm.back())
        old = row.jax, finding.with("old_plugin", row.plugin);
  }
  return finding.with("packages", packages).with("old", old).with("newest", old == "no" ? "yes" : "no");
}

const AddProbe jax_plugin("python.jax.plugin", [](const Facts& f) {
  const auto nvidia = computing_gpus(f, Vendor::nvidia), amd = computing_gpus(f, Vendor::amd);
  const auto all = installed(f, "jax");
  if (all.empty() || (nvidia.empty() && (amd.empty() || amd.front()->integrated))) return skip();
  for (const Installed& one : all) {
    // One environment can serve only one vendor's GPUs.
    if ((!nvidia.empty() && has_jax_plugin(*one.environment, "cuda")) ||
        (!amd.empty() && has_jax_plugin(*one.environment, "rocm")))
      continue;
    Finding finding = finding_of(Status::fail, one);
    finding
        .seen(one.environment->prefix, nvidia.empty() ? "jax-rocm60-plugin, jax-rocm7-plugin: -"
                                                      : "jax-cuda12-plugin, jax-cuda13-plugin: -")
        .with("gpu", (nvidia.empty() ? amd : nvidia).front()->title())
        .with("vendor", nvidia.empty() ? "amd" : "nvidia");
    return with_jax(f, std::move(finding));
  }
  return pass();
});

const AddProbe jax_versions("python.jax.versions", [](const Facts& f) {
  const auto all = installed(f, "jax");
  for (const Installed& one : all) {
    const Distribution* jaxlib = one.environment->find("jaxlib");
    const auto library = jaxlib == nullptr ? std::nullopt : Version::parse(jaxlib->version);
    const Distribution* wrong = library && *library > one.version ? jaxlib : nullptr;
    for (const Distribution& other : one.environment->distributions) {
      const auto version = Version::parse(other.version);
      const bool part = other.name.starts_with("jax-cuda") || other.name.starts_with("jax-rocm");
      if (part && library && version && wrong == nullptr && *version != *library) wrong = &other;
    }
    if (wrong == nullptr) continue;
    Finding finding = finding_of(Status::fail, one);
    if (jaxlib != nullptr) finding.seen(jaxlib->folder, jaxlib->version);
    if (wrong != jaxlib) finding.seen(wrong->folder, wrong->version);
    finding.with("package", wrong->name).with("other", wrong->version);
    return with_jax(f, std::move(finding));
  }
  return all.empty() ? skip() : pass();
});

const AddProbe jax_python("python.jax.python", [](const Facts& f) {
  const auto all = installed(f, "jax");
  for (const Installed& one : all) {
    const auto python = Version::parse(one.environment->version);
    std::optional<Version> oldest;
    for (const auto& row : Compatibility::known().jax_python)
      if (one.version >= row.version) oldest = row.oldest;
    if (!python || !oldest || *python >= *oldest) continue;
    return finding_of(Status::fail, one)
        .with("python_version", one.environment->version)
        .with("oldest", oldest->text());
  }
  return all.empty() ? skip() : pass();
});

const AddProbe jax_cudnn("python.jax.cudnn", [](const Facts& f) {
  bool any = false;
  for (const Installed& one : installed(f, "jax"))
    for (const auto& row : Compatibility::known().jax_cuda) {
      const std::string name = fmt::format("nvidia-cudnn-cu{}", row.major);
      const Distribution* library = one.environment->find(name);
      if (library == nullptr || one.environment->find(fmt::format("jax-cuda{}-plugin", row.major)) == nullptr)
        continue;
      any = true;
      const auto needed = Version::parse(row.cudnn), there = Version::parse(library->version);
      if (!needed || !there || *there >= *needed) continue;
      return finding_of(Status::fail, one)
          .seen(library->folder, library->version)
          .with("package", name)
          .with("needed", needed->text())
          .with("cudnn", library->version);
    }
  return any ? pass() : skip();
});

const AddProbe jax_driver("python.jax.driver", [](const Facts& f) {
  const Compatibility& known = Compatibility::known();
  const auto driver = Version::parse(f.nvidia().version);
  Finding unknown = skip();
  bool any = false;
  for (const Installed& one : installed(f, "jax"))
    for (const auto& row : known.jax_cuda) {
      const Distribution* plugin = one.environment->find(fmt::format("jax-cuda{}-plugin", row.major));
      if (plugin == nullptr) continue;
      any = true;
      if (one.version.first(2) > known.newest_jax)
        add_unknown(unknown, one, "which driver and GPUs it needs");
      Finding finding = finding_of(Status::fail, one);
      finding.seen(plugin->folder, plugin->version);
      finding.with("cuda", std::to_string(row.major)).with("needed", row.driver.text());
      finding.with("oldest", fmt::format("sm_{}", row.oldest_sm));
      if (driver && *driver < row.driver)
        return finding.seen(f.nvidia().source, f.nvidia().version)
            .with("problem", f.nvidia().version + " < " + row.driver.text());
      for (const Gpu* gpu : computing_gpus(f, Vendor::nvidia))
        if (const int number = sm_number(gpu->arch); number > 0 && number < row.oldest_sm)
          return finding.seen(gpu->arch_source, gpu->arch).with("problem", gpu->title());
    }
  if (!unknown.evidence.empty()) return unknown;
  return any ? pass() : skip();
});

const AddProbe jax_rocm("python.jax.rocm", [](const Facts& f) {
  Finding unknown = skip();
  bool any = false;
  for (const Installed& one : installed(f, "jax"))
    for (const auto& row : Compatibility::known().jax_rocm) {
      const Distribution* plugin = one.environment->find(row.plugin);
      if (plugin == nullptr) continue;
      any = true;
      const auto newest = Version::parse(row.jax);
      if (newest && one.version.first(3) > *newest)
        add_unknown(unknown, one, fmt::format("what {} needs", row.plugin));
      const auto rocm = newest_rocm(f);
      const uint32_t major = rocm ? rocm->version.at(0) : 0;
      // ROCm may also come as wheels ("rocm-sdk-libraries", "amd-rocm-..."), with the plugin's version.
      const bool wheels =
          std::any_of(one.environment->distributions.begin(), one.environment->distributions.end(),
                      [](const Distribution& other) {
                        return other.name.starts_with("rocm-sdk") || other.name.starts_with("amd-rocm");
                      });
      if (wheels || major == row.major || major > Compatibility::known().jax_rocm.back().major) continue;
      Finding finding = finding_of(Status::fail, one);
      finding.seen(plugin->folder, plugin->version)
          .seen(rocm ? rocm->file : "/opt/rocm*/.info/version", rocm ? rocm->version.text() : "-")
          .with("plugin", row.plugin)
          .with("needed", std::to_string(row.major))
          .with("there", rocm ? "yes" : "no")
          .with("rocm", rocm ? rocm->version.text() : "-");
      return with_jax(f, std::move(finding));
    }
  if (!unknown.evidence.empty()) return unknown;
  return any ? pass() : skip();
});

}  // namespace
}  // namespace athanor::doctor
