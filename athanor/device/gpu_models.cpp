#include "athanor/device/gpu_models.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "athanor/base/embedded.h"
#include "athanor/base/toml.h"
#include "athanor/device/pci.h"

namespace athanor {
namespace {

std::string with_maker(int64_t vendor, const std::string& name) {
  const char* maker = vendor == pci_vendor::amd      ? "AMD "
                      : vendor == pci_vendor::nvidia ? "NVIDIA "
                                                     : "Intel ";
  return name.starts_with(maker) ? name : maker + name;
}

std::vector<GpuModel> read_models() {
  std::vector<GpuModel> all;
  const auto document = parse_toml(std::string(embedded_file("data/gpu_ids.toml")), "gpu_ids.toml");
  const auto add = [&](const nlohmann::json& one, int64_t vendor) {
    const auto from = one.at("from").get<int64_t>();
    all.push_back({vendor, from, one.value("to", from), one.at("arch"),
                   with_maker(vendor, one.at("name").get<std::string>()), one.value("integrated", false)});
  };
  for (const auto& one : document.at("range")) add(one, one.at("vendor").get<int64_t>());
  for (const auto& one : document.at("intel")) add(one, pci_vendor::intel);
  return all;
}

}  // namespace

const GpuModel* find_gpu_model(int64_t vendor, int64_t device) {
  static const std::vector<GpuModel> models = read_models();
  const auto found = std::find_if(models.begin(), models.end(), [&](const GpuModel& model) {
    return model.vendor == vendor && device >= model.from && device <= model.to;
  });
  return found == models.end() ? nullptr : &*found;
}

}  // namespace athanor
