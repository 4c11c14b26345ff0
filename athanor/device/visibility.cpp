#include "athanor/device/visibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

using Devices = std::vector<const FoundDevice*>;

struct Variable {
  const char *name, *vendor;
  std::vector<std::string> backends;
  bool empty_hides;  // an empty value hides everything; else it counts as not set
};

// In the order in which they act: HIP's variables count only the devices that ROCr's variable leaves visible.
const std::vector<Variable>& variables() {
  static const std::vector<Variable> all = {{"ROCR_VISIBLE_DEVICES", "AMD", {"hip", "opencl"}, true},
                                            {"HIP_VISIBLE_DEVICES", "AMD", {"hip"}, false},
                                            {"CUDA_VISIBLE_DEVICES", "AMD", {"hip"}, false},
                                            {"GPU_DEVICE_ORDINAL", "AMD", {"opencl"}, false},
                                            {"CUDA_VISIBLE_DEVICES", "NVIDIA", {"cuda", "opencl"}, true}};
  return all;
}

bool all_alike(const Devices& devices) {
  return std::all_of(devices.begin(), devices.end(),
                     [&](const FoundDevice* one) { return one->name == devices.front()->name; });
}

// The vendor's GPUs in the order in which its runtimes count them. (CUDA counts the fastest first, unless
// CUDA_DEVICE_ORDER says otherwise.)
Devices counted(const std::vector<FoundDevice>& devices, const std::string& vendor) {
  Devices gpus;
  for (const FoundDevice& device : devices)
    if (device.kind != "cpu" && device.text("vendor") == vendor) gpus.push_back(&device);
  std::stable_sort(gpus.begin(), gpus.end(), [](const FoundDevice* a, const FoundDevice* b) {
    return a->number("kfd_node", -1) < b->number("kfd_node", -1);
  });
  return gpus;
}

// The indices of `gpus` that a value shows; nullopt if this cannot be known. Runtimes ignore everything after
// the first entry that names no device.
std::optional<std::set<size_t>> shown(const std::string& value, const Devices& gpus, bool order_known) {
  std::set<size_t> all;
  for (const std::string& part : split(value, ',')) {
    const std::string word = trim(part);
    int number = -1;
    const auto end = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.starts_with("GPU-") || word.starts_with("MIG-")) {
      std::vector<size_t> named;
      for (size_t i = 0; i < gpus.size(); ++i) {
        if (gpus[i]->text("uuid").empty()) return std::nullopt;
        if (gpus[i]->text("uuid").starts_with(word)) named.push_back(i);
      }
      if (word.starts_with("MIG-")) return std::nullopt;
      if (named.size() != 1) break;  // no GPU, or several
      all.insert(named.front());
    } else if (word.empty() || end.ptr != word.data() + word.size() || number < 0 ||
               static_cast<size_t>(number) >= gpus.size()) {
      break;
    } else {
      if (!order_known) return std::nullopt;
      all.insert(static_cast<size_t>(number));
    }
  }
  return all;
}

}  // namespace

Visible Visibility::of(const FoundDevice& device, const std::string& backend) const {
  if (std::find(backends.begin(), backends.end(), backend) == backends.end()) return Visible::yes;
  const auto found = std::find(devices.begin(), devices.end(), &device);
  return found == devices.end() ? Visible::yes : visible[static_cast<size_t>(found - devices.begin())];
}

std::vector<Visibility> visibilities(const std::vector<FoundDevice>& devices, const Machine& machine) {
  std::vector<Visibility> all;
  for (const Variable& variable : variables()) {
    const auto value = machine.environment(variable.name);
    if (!value || (value->empty() && !variable.empty_hides)) continue;
    const bool amd = std::string_view(variable.vendor) == "AMD";
    // HIP reads CUDA's variable only if its own is not set.
    if (amd && std::string_view(variable.name) == "CUDA_VISIBLE_DEVICES" &&
        !machine.environment("HIP_VISIBLE_DEVICES").value_or("").empty())
      continue;
    Visibility one{fmt::format("{}={}", variable.name, *value), variable.name, variable.backends, {}, {}};
    one.devices = counted(devices, variable.vendor);
    if (one.devices.empty()) continue;
    Devices left;  // the devices that ROCr's variable does not hide
    bool order_known =
        amd || machine.environment("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" || all_alike(one.devices);
    for (const FoundDevice* gpu : one.devices) {
      const bool below = amd && !all.empty() && all.front().variable == "ROCR_VISIBLE_DEVICES";
      const Visible so_far = below ? all.front().of(*gpu, variable.backends.front()) : Visible::yes;
      if (so_far != Visible::no) left.push_back(gpu);
      if (so_far == Visible::unknown) order_known = false;
    }
    const auto seen = shown(*value, left, order_known);
    for (const FoundDevice* gpu : one.devices) {
      const auto place = std::find(left.begin(), left.end(), gpu);
      one.visible.push_back(place == left.end() ? Visible::yes  // hidden already, but not by this variable
                            : !seen             ? Visible::unknown
                            : seen->contains(static_cast<size_t>(place - left.begin())) ? Visible::yes
                                                                                        : Visible::no);
    }
    all.push_back(std::move(one));
  }
  for (Visibility& one : all) one.setting = printable(std::move(one.setting));
  return all;
}

std::string hidden_by(const std::vector<Visibility>& all, const FoundDevice& device,
                      const std::string& backend) {
  for (const Visible sought : {Visible::no, Visible::unknown})
    for (const Visibility& one : all)
      if (one.of(device, backend) == sought) return one.setting;
  return {};
}

}  // namespace athanor
