#include "athanor/doctor/compatibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/toml.h"
#include "athanor/doctor/data.h"

namespace athanor::doctor {
namespace {

using Json = nlohmann::json;

constexpr const char* file = "compatibility.toml";

Version version_of(const Json& text) {
  const auto version = Version::parse(text.get<std::string>());
  if (!version)
    throw Error(ErrorCode::format, fmt::format("'{}' is no version", text.get<std::string>()), file);
  return *version;
}

std::set<std::string> names_of(const Json& list) {
  std::set<std::string> names;
  for (const Json& name : list) names.insert(name.get<std::string>());
  return names;
}

std::vector<Compatibility::Framework> frameworks(const Json& table) {
  std::vector<Compatibility::Framework> releases;
  for (const Json& row : table.at("release")) {
    Compatibility::Framework one;
    one.version = version_of(row.at("version"));
    one.oldest_python = version_of(row.at("python").at(0));
    one.newest_python = version_of(row.at("python").at(1));
    const Json& cuda = row.at("cuda");
    if (cuda.is_string())
      one.cuda.push_back(version_of(cuda));
    else
      for (const Json& version : cuda) one.cuda.push_back(version_of(version));
    one.rocm = row.value("rocm", "");
    one.cudnn = row.value("cudnn", "");
    releases.push_back(std::move(one));
  }
  return releases;
}

void read_cuda(Compatibility& all, const Json& table) {
  for (const Json& row : table.at("release"))
    all.cuda.push_back({version_of(row.at("version")), version_of(row.at("driver")), row.at("oldest_sm"),
                        row.at("newest_sm")});
  for (const Json& row : table.at("minimum_driver"))
    all.minimum_driver[row.at("major").get<uint32_t>()] = version_of(row.at("driver"));
  for (const Json& row : table.at("last_branch"))
    all.last_branch.push_back({row.at("below_sm"), row.at("branch"), row.at("chips")});
}

void read_rocm(Compatibility& all, const Json& table) {
  for (const Json& row : table.at("release")) {
    Compatibility::Rocm one;
    one.version = version_of(row.at("version"));
    one.pytorch = row.value("pytorch", "");
    one.tensorflow = row.value("tensorflow", "");
    one.targets = names_of(row.value("targets", Json::array()));
    for (const Json& system : row.value("systems", Json::array())) one.systems.push_back(system);
    all.rocm.push_back(std::move(one));
  }
  all.override_10_3_0 = names_of(table.at("override_10_3_0"));
  all.hipblaslt = names_of(table.at("hipblaslt"));
  all.broken_half = names_of(table.at("broken_half"));
}

Compatibility from_json(const Json& document) {
  Compatibility all;
  if (document.at("schema") != 1) throw Error(ErrorCode::format, "another schema than 1", file);
  for (const char* name : {"cuda", "pytorch", "tensorflow", "jax", "onnxruntime", "rocm"})
    all.origins[name] = {document.at(name).at("source"), document.at(name).at("date")};
  read_cuda(all, document.at("cuda"));
  const Json& torch = document.at("pytorch");
  all.pytorch = frameworks(torch);
  for (const Json& row : torch.at("arch"))
    all.torch_arch.push_back({version_of(row.at("version")), version_of(row.at("cuda")), row.at("oldest_sm"),
                              row.at("newest_sm"), row.value("ptx", false)});
  for (const Json& row : torch.at("gfx"))
    all.torch_gfx.push_back({version_of(row.at("rocm")), names_of(row.at("targets"))});
  all.torch_index = torch.at("index");
  all.tensorflow = frameworks(document.at("tensorflow"));
  const Json& jax = document.at("jax");
  for (const Json& row : jax.at("python"))
    all.jax_python.push_back({version_of(row.at("version")), version_of(row.at("oldest"))});
  for (const Json& row : jax.at("cuda"))
    all.jax_cuda.push_back(
        {row.at("major"), version_of(row.at("driver")), row.at("oldest_sm"), row.at("cudnn")});
  for (const Json& row : jax.at("rocm"))
    all.jax_rocm.push_back({row.at("major"), row.at("plugin"), row.at("extra"), row.at("jax"),
                            version_of(row.at("rocm")), version_of(row.at("python").at(0)),
                            version_of(row.at("python").at(1)), names_of(row.at("targets"))});
  const Json& onnxruntime = document.at("onnxruntime");
  for (const Json& row : onnxruntime.at("release"))
    all.onnxruntime.push_back({version_of(row.at("version")), row.at("cuda"), row.at("cudnn")});
  all.newest_onnxruntime = version_of(onnxruntime.at("newest"));
  read_rocm(all, document.at("rocm"));
  return all;
}

}  // namespace

Compatibility Compatibility::parse(std::string_view toml) {
  try {
    return from_json(parse_toml(toml, file));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::format, error.what(), file);
  }
}

const Compatibility& Compatibility::known() {
  static const Compatibility all = parse(data_file(file));
  return all;
}

const Compatibility::Framework* Compatibility::find(const std::vector<Framework>& releases,
                                                    const Version& version) {
  for (const Framework& release : releases)
    if (release.version == version.first(2)) return &release;
  return nullptr;
}

const Compatibility::Toolkit* Compatibility::toolkit(const Version& version) const {
  for (const Toolkit& one : cuda)
    if (one.version == version.first(2)) return &one;
  return nullptr;
}

const Compatibility::Rocm* Compatibility::rocm_release(const Version& version) const {
  for (const Rocm& one : rocm)
    if (one.version == version.first(2)) return &one;
  return nullptr;
}

std::optional<Version> Compatibility::oldest_driver(const Version& cuda_version) const {
  const auto driver = minimum_driver.find(cuda_version.at(0));
  return driver == minimum_driver.end() ? std::nullopt : std::optional(driver->second);
}

const Compatibility::DriverBranch* Compatibility::last_driver(int sm) const {
  for (const DriverBranch& one : last_branch)
    if (sm > 0 && sm < one.below_sm) return &one;
  return nullptr;
}

const Compatibility::OnnxRuntime* Compatibility::onnxruntime_gpu(const Version& version) const {
  const OnnxRuntime* found = nullptr;
  for (const OnnxRuntime& one : onnxruntime)
    if (version >= one.version) found = &one;
  return version.first(2) > newest_onnxruntime ? nullptr : found;
}

std::optional<Compatibility::SmRange> Compatibility::torch_sm(const Version& torch,
                                                              const Version& cuda_version) const {
  for (const TorchArch& arch : torch_arch)
    if (arch.version == torch.first(2) && arch.cuda == cuda_version.first(2))
      return SmRange{arch.oldest_sm, arch.ptx ? 1000 : arch.newest_sm, true};
  if (const Toolkit* made_with = toolkit(cuda_version))
    return SmRange{made_with->oldest_sm, made_with->newest_sm, false};
  return std::nullopt;
}

const std::set<std::string>* Compatibility::torch_targets(const Version& rocm_version) const {
  const std::set<std::string>* targets = nullptr;
  for (const Targets& row : torch_gfx)
    if (row.rocm <= rocm_version) targets = &row.gfx;
  // A newer ROCm than any framework release here: unknown.
  Version newest;
  for (const Framework& release : pytorch)
    if (const auto version = Version::parse(release.rocm)) newest = std::max(newest, *version);
  return rocm_version.first(2) > newest.first(2) ? nullptr : targets;
}

}  // namespace athanor::doctor
