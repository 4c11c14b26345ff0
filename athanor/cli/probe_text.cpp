#include "athanor/cli/probe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/cli/apart.h"
#include "athanor/cli/doing.h"

namespace athanor::cli {
namespace {

struct Title {
  const char *property, *title, *unit;
};

constexpr Title titles[] = {
    {"concurrency", "units at work at once", ""},        {"wave_width", "wave width", ""},
    {"f32_tflops", "f32 multiply-adds", "Tflop/s"},      {"f32_product_tflops", "f32 products", "Tflop/s"},
    {"f16_product_tflops", "f16 products", "Tflop/s"},   {"bf16_product_tflops", "bf16 products", "Tflop/s"},
    {"i8_tops", "8-bit multiply-adds", "Top/s"},         {"bandwidth_gb_s", "memory bandwidth", "GB/s"},
    {"cache_bandwidth_gb_s", "cache bandwidth", "GB/s"}, {"to_device_gb_s", "host to device", "GB/s"},
    {"from_device_gb_s", "device to host", "GB/s"},      {"launch_us", "a launch", "us"},
    {"round_trip_us", "a launch and its end", "us"},     {"matrix_units_found", "matrix units", ""}};

Title title_of(const std::string& property) {
  const auto* found = std::find_if(std::begin(titles), std::end(titles),
                                   [&](const Title& title) { return property == title.property; });
  return found == std::end(titles) ? Title{property.c_str(), property.c_str(), ""} : *found;
}

// The value with three digits.
std::string number(double value) {
  return fmt::format("{:.{}f}", value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3);
}

std::string bold(const std::string& text, const Screen& screen) {
  return screen.color ? "\x1b[1m" + text + "\x1b[0m" : text;
}

nlohmann::ordered_json to_json(const MemoryReport& report) {
  auto errors = nlohmann::ordered_json::array();
  for (const MemoryError& error : report.errors)
    errors.push_back({{"address", fmt::format("{:#x}", error.address)},
                      {"block", error.block},
                      {"offset", error.offset},
                      {"expected", fmt::format("{:#010x}", error.expected)},
                      {"found", fmt::format("{:#010x}", error.found)},
                      {"pattern", error.pattern}});
  return {
      {"bytes", report.bytes},     {"bytes_checked", report.bytes_checked}, {"passes", report.passes},
      {"seconds", report.seconds}, {"wrong_words", report.wrong_words},     {"errors", std::move(errors)}};
}

void print(const std::string& device, const MemoryReport& report) {
  std::cout << fmt::format(
      "{:<10} {} in {} pass{}, {} read back, {}: {}\n", device, format_bytes(report.bytes), report.passes,
      report.passes == 1 ? "" : "es", format_bytes(report.bytes_checked), format_duration(report.seconds),
      report.wrong_words == 0 ? "no errors" : fmt::format("{} wrong words", report.wrong_words));
  for (const MemoryError& error : report.errors)
    std::cout << fmt::format(
        "    address {:#014x} (block {}, byte {:#x}): wrote {:#010x}, read {:#010x}, pattern {}\n",
        error.address, error.block, error.offset, error.expected, error.found, error.pattern);
  if (report.wrong_words > report.errors.size())
    std::cout << fmt::format("    ... and {} more\n", report.wrong_words - report.errors.size());
}

TestedApart test_apart(const std::string& device, const MemoryTest& test) {
  Doing doing("testing", Doing::Elsewhere::nothing);
  MemoryTestOptions options{.seconds = test.seconds};
  if (!test.json)
    options.progress = [&](const std::string& what, double seconds) {
      doing.say("memory of " + device,
                fmt::format("{}, {:.0f} of {:.0f} s", what, std::min(seconds, test.seconds), test.seconds));
    };
  return test_memory_apart(device, test.patience, options);
}

}  // namespace

std::string describe(const ProbeResults& results, const Screen& screen) {
  std::string text;
  for (const ProbedDevice& device : results.devices) {
    text +=
        fmt::format("\n{}\n", bold(fmt::format("Measured on {} ({})", device.device, device.name), screen));
    for (const Measurement& one : device.measurements) {
      const Title title = title_of(one.property);
      text +=
          one.missing.empty()
              ? fmt::format("  {:<22} {:>8} {:<8} {}\n", title.title, number(one.value), title.unit, one.how)
              : fmt::format("  {:<22} {:>8} {:<8} {}\n", title.title, "-", "", one.missing);
    }
    if (!device.problem.empty()) text += "  " + device.problem + "\n";
  }
  if (!results.shortfalls.empty()) text += "\n" + bold("Less than it should be", screen) + "\n";
  for (const Shortfall& one : results.shortfalls) {
    const Title title = title_of(one.property);
    text += fmt::format("  {}, {}: {} of {}{}{} ({}), {:.0f} %. Likely causes:\n", one.device, title.title,
                        number(one.measured), number(one.expected), *title.unit == '\0' ? "" : " ",
                        title.unit, one.expected_by, 100 * one.measured / one.expected);
    for (const std::string& cause : one.causes) text += fmt::format("    - {}\n", cause);
  }
  return text;
}

nlohmann::ordered_json to_json(const ProbeResults& results) {
  using Json = nlohmann::ordered_json;
  Json devices = Json::array(), shortfalls = Json::array();
  for (const ProbedDevice& device : results.devices) {
    Json measurements = Json::object();
    for (const Measurement& one : device.measurements)
      measurements[one.property] =
          one.missing.empty() ? Json{{"value", one.value}, {"how", one.how}} : Json{{"missing", one.missing}};
    Json json{{"device", device.device}, {"name", device.name}, {"measurements", std::move(measurements)}};
    if (!device.problem.empty()) json["problem"] = device.problem;
    devices.push_back(std::move(json));
  }
  for (const Shortfall& one : results.shortfalls)
    shortfalls.push_back({{"device", one.device},
                          {"property", one.property},
                          {"measured", one.measured},
                          {"expected", one.expected},
                          {"expected_by", one.expected_by},
                          {"causes", one.causes}});
  return {{"devices", std::move(devices)}, {"shortfalls", std::move(shortfalls)}};
}

int test_memories(const Detection& found, const MemoryTest& test) {
  int exit_code = 0;
  auto all = nlohmann::ordered_json::array();
  bool tested = false;
  for (const FoundDevice& one : found.devices)
    for (const BackendUse& use : one.backends) {
      if (!use.usable || (test.device.empty() ? one.kind == "cpu" && use.device != to_string(Device{})
                                              : test.device != use.device))
        continue;
      const TestedApart outcome = test_apart(use.device, test);
      tested = true;
      if (outcome.report.wrong_words > 0 || !outcome.problem.empty()) exit_code = 1;
      if (test.json) {
        auto entry = outcome.problem.empty() ? to_json(outcome.report)
                                             : nlohmann::ordered_json{{"problem", outcome.problem}};
        entry["device"] = use.device;
        all.push_back(std::move(entry));
      } else if (outcome.problem.empty()) {
        print(use.device, outcome.report);
      } else {
        std::cout << fmt::format("{:<10} could not be tested: {}\n", use.device, outcome.problem);
      }
    }
  if (!tested)
    throw Error(ErrorCode::device, "there is no device '" + test.device + "' to test", "--device",
                "'athanor detect' lists what can be used");
  if (test.json) std::cout << nlohmann::ordered_json{{"schema", 1}, {"memory_tests", all}}.dump(2) << '\n';
  return exit_code;
}

}  // namespace athanor::cli
