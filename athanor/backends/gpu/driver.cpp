// Descriptions of devices and messages of errors, with the same words for all drivers.
#include "athanor/backends/gpu/driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/device/data_sheet.h"
#include "athanor/device/overrides.h"

namespace athanor::gpu {
namespace {

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

void Driver::describe(const std::string& source, int64_t units,
                      const std::map<std::string, std::string>& more) {
  DeviceInfo& info = facts_.info;
  GpuTraits& traits = facts_.traits;
  // A driver may report none or nonsense; the heuristics that read this need at least one.
  constexpr int64_t most = 4096;
  int64_t counted = units;
  if (info.kind != "cpu")  // the user's number counts only for the choice of grids
    counted = Overrides(Machine()).find("compute_units", {info.name, to_string(info.device)}).value_or(units);
  traits.compute_units = static_cast<int>(std::clamp<int64_t>(counted, 1, most));
  const auto architecture = more.find("architecture");
  const DataSheet* sheet =
      find_data_sheet({.name = info.name,
                       .arch = architecture == more.end() ? std::string() : architecture->second,
                       .memory_bytes = info.memory_bytes});
  if (sheet != nullptr) traits.sheet = sheet;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) info.properties[name] = {value, source};
  };
  for (const auto& [name, value] : more) add(name, name == "PCI address" ? lower(value) : value);
  add("compute units", std::to_string(units));
  add("memory", format_bytes(info.memory_bytes));
  add("local memory", format_bytes(static_cast<uint64_t>(traits.local_bytes)));
  add("work-items in a group", std::to_string(traits.max_group_size));
}

void Driver::fail(bool out_of_memory, std::string_view doing, const std::string& error) const {
  throw Error(
      out_of_memory ? ErrorCode::out_of_memory : ErrorCode::device,
      fmt::format("{}: cannot {}: {}", to_string(facts_.info.device), doing, error), {},
      out_of_memory
          ? "Use a smaller batch or model, or close other programs that use the device."
          : "The driver reported this. 'athanor detect' lists the devices; look at the system's log too.");
}

void Driver::fail_late(std::string_view doing, const std::string& error) const {
  if (!locate) fail(false, doing, error);
  try {
    fail(false, doing, "earlier work failed: " + error);
  } catch (const Error& late) {
    throw locate(late);
  }
}

void Driver::refuse(const std::string& why, const std::string& fix) const {
  throw Error(ErrorCode::device,
              fmt::format("cannot use {} ({}): {}", to_string(facts_.info.device), facts_.info.name, why), {},
              fix);
}

void Driver::fail_to_compile(const std::string& kernel, const std::string& error) const {
  throw Error(
      ErrorCode::device,
      fmt::format("{} cannot compile the kernel '{}': {}", to_string(facts_.info.device), kernel, error), {},
      "Please report it with this log. The driver's version is in 'athanor detect'.");
}

}  // namespace athanor::gpu
