#include "athanor/device/runtimes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "athanor/base/os/child.h"
#include "athanor/base/startup_registry.h"
#include "athanor/device/groups.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

using nlohmann::json;

StartupRegistry<std::vector<Runtime>>& registered() {
  static StartupRegistry<std::vector<Runtime>> all;
  return all;
}

// Texts and numbers of a runtime are checked like those of files.
std::string text_of(const json& table, const char* name) {
  const auto found = table.find(name);
  return found != table.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

Sighting sighting_of(const Runtime& runtime, const json& table, size_t index) {
  Sighting seen;
  seen.source = runtime.name;
  seen.kind = text_of(table, "kind");
  if (seen.kind.empty()) seen.kind = "gpu";
  seen.name = text_of(table, "name");
  seen.pci = text_of(table, "pci");
  seen.uuid = text_of(table, "uuid");
  if (const auto minor = table.find("render_minor");
      minor != table.end() && minor->is_number_integer() && *minor > 0 && *minor < 4096)
    seen.render_minor = minor->get<int64_t>();
  if (!runtime.backend.empty()) seen.device = fmt::format("{}:{}", runtime.name, index);
  seen.unusable = text_of(table, "unusable");
  const auto number = [&](const char* name, const char* property) {
    // For every processor, Mesa's llvmpipe reports 300 MHz; /sys has the real clock.
    if (seen.kind == "cpu" && std::string_view(name) == "clock_mhz") return;
    const auto found = table.find(name);
    if (found != table.end() && found->is_number_integer() && (found->is_number_unsigned() || *found >= 0) &&
        *found <= INT64_MAX)
      seen.add(property, Value(found->get<int64_t>()));
  };
  const auto flag = [&](const char* name) {
    const auto found = table.find(name);
    if (found != table.end() && found->is_boolean()) seen.add(name, Value(found->get<bool>()));
  };
  if (const std::string arch = text_of(table, "arch"); !arch.empty())
    seen.add("architecture", Value(arch.substr(0, arch.find(':'))));  // gfx90a:sramecc+:xnack-
  for (const char* name : {"compute_units", "wave_width", "clock_mhz", "memory_clock_mhz", "memory_bus_bits",
                           "memory_bytes", "local_memory_bytes"})
    number(name, name);
  number("l2_bytes", "l2_cache_bytes");
  for (const char* name : {"f16", "f64"}) flag(name);
  if (const std::string vendor = text_of(table, "vendor"); !vendor.empty())
    seen.add("vendor", Value(vendor_by_name(vendor)));
  for (const char* name : {"platform", "driver", "compiler"})
    if (const std::string text = text_of(table, name); !text.empty())
      seen.add(fmt::format("{}_{}", runtime.name, name), Value(text));
  if (const std::string driver = text_of(table, "driver_version"); !driver.empty())
    seen.add("driver_version", Value(driver));
  if (const auto links = table.find("nvlinks"); links != table.end() && links->is_array())
    for (const json& link : *links) {
      if (!link.is_object()) continue;
      const auto count = link.find("count");
      if (count != link.end() && count->is_number_integer() && *count > 0 && *count < 1000)
        seen.nvlinks[text_of(link, "to")] = count->get<int64_t>();
    }
  return seen;
}

void take_answer(const Runtime& runtime, const json& answer, RuntimeState& state,
                 std::vector<Sighting>& all) {
  state.answered = true;
  if (!answer.is_object()) return;
  state.version = text_of(answer, "version");
  const auto devices = answer.find("devices");
  if (devices == answer.end() || !devices->is_array()) return;
  for (size_t i = 0; i < devices->size(); ++i)
    if ((*devices)[i].is_object()) all.push_back(sighting_of(runtime, (*devices)[i], i));
}

void take_recorded(const Runtime& runtime, const json& recorded, RuntimeState& state,
                   std::vector<Sighting>& all) {
  const auto problems = recorded.find("runtimes");
  const auto devices = recorded.find(runtime.name);
  if (problems != recorded.end() && problems->is_object())
    state.problem = text_of(*problems, runtime.name.c_str());
  if (devices != recorded.end() && devices->is_array()) {
    json answer{{"devices", *devices}};
    if (!devices->empty() && (*devices)[0].is_object()) answer["version"] = text_of((*devices)[0], "version");
    take_answer(runtime, answer, state, all);
  } else if (state.problem.empty()) {
    state.asked = false;
    state.problem = "its answers were not recorded";
  }
}

}  // namespace

bool register_runtime(const Runtime& runtime) {
  registered().add([&](std::vector<Runtime>& all) { all.push_back(runtime); });
  return true;
}

const std::vector<Runtime>& runtimes() { return registered().list(); }

std::vector<Sighting> sightings_of_runtimes(const Machine& machine, const DetectOptions& options,
                                            std::vector<RuntimeState>& states) {
  std::vector<Sighting> all;
  std::vector<Runtime> in_order = runtimes();
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const json recorded = machine.live() ? json::object() : json::parse(machine.recorded(), nullptr, false);
  std::vector<os::Child> children;
  if (machine.live() && options.ask_runtimes)
    for (const Runtime& runtime : in_order)
      children.emplace_back(
          [ask = runtime.ask] { return ask().dump(-1, ' ', false, json::error_handler_t::replace); });
  for (size_t i = 0; i < in_order.size(); ++i) {
    RuntimeState state{.name = in_order[i].name, .version = {}, .problem = {}};
    if (!machine.live()) {
      take_recorded(in_order[i], recorded, state, all);
    } else if (!options.ask_runtimes) {
      state.asked = false;
      state.problem = "was not asked";
    } else {
      const os::ChildAnswer answer = children[i].wait(options.seconds);
      const json parsed = json::parse(answer.text, nullptr, false);
      const std::string error = parsed.is_object() ? text_of(parsed, "error") : "";
      if (!answer.problem.empty())
        state.problem = "the program that asked it " + answer.problem;
      else if (parsed.is_discarded() || !error.empty())
        state.problem = parsed.is_discarded() ? "its answer makes no sense" : error;
      else
        take_answer(in_order[i], parsed, state, all);
    }
    states.push_back(std::move(state));
  }
  return all;
}

}  // namespace athanor
