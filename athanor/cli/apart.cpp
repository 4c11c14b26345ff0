#include "athanor/cli/apart.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/os/child.h"

namespace athanor::cli {
namespace {

using Json = nlohmann::json;

// After this many failures, a device is unlikely to give more results.
constexpr int most_failures = 3;

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json to_json(const Measurement& one) {
  return {{"property", one.property}, {"value", one.value}, {"how", one.how}, {"missing", one.missing}};
}

// Reports {"part", "what", "properties"} before each part from `first` on, {"what", "far"} during it, and its
// measurements after it.
std::string measure_parts(const std::string& device, size_t first, const os::Say& say) {
  const std::vector<ProbePart> parts = probe_parts(parse_device(device));
  for (size_t i = first; i < parts.size(); ++i) {
    say(line_of({{"part", i}, {"what", parts[i].what}, {"properties", parts[i].properties}}));
    const auto all = run_part(parts[i], [&](const std::string& what, const std::string& how_far) {
      say(line_of({{"what", what}, {"far", how_far}}));
    });
    auto measured = Json::array();
    for (const Measurement& one : all) measured.push_back(to_json(one));
    say(line_of({{"measured", std::move(measured)}}));
  }
  return {};
}

// Runs `work` in a child process. An Error that it throws is passed on; any other failure is the answer's
// problem.
template <class Work>
os::ChildAnswer ask_apart(Work work, double patience, const std::function<void(const Json&)>& heard) {
  std::string problem;
  os::Child child([work](const os::Say& say) {
    try {
      return work(say);
    } catch (const Error& error) {
      say(line_of({{"problem", error.what()}}));
      return std::string();
    }
  });
  os::ChildAnswer answer = child.wait(patience, [&](const std::string& line) {
    const Json said = Json::parse(line, nullptr, false);
    if (!said.is_object()) return;
    if (said.contains("problem"))
      problem = said["problem"];
    else
      heard(said);
  });
  if (!answer.problem.empty()) answer.problem = "the program that used it " + answer.problem;
  if (!problem.empty()) answer.problem = problem;
  return answer;
}

}  // namespace

ProbedApart probe_apart(const std::string& device, double patience, const ProbeProgress& say) {
  ProbedApart result;
  size_t next = 0;
  for (int failures = 0; failures < most_failures; ++failures) {
    std::vector<std::string> open;  // properties of the current part
    bool started = false;
    const auto heard = [&](const Json& said) {
      if (said.contains("part")) {
        next = said["part"].get<size_t>() + 1;
        open = said["properties"].get<std::vector<std::string>>();
        started = true;
      }
      if (said.contains("what")) say(said["what"], said.value("far", ""));
      if (!said.contains("measured")) return;
      for (const Json& one : said["measured"])
        result.measurements.push_back({one["property"], one["value"], one["how"], one["missing"]});
      open.clear();
    };
    const os::ChildAnswer answer = ask_apart(
        [device, next](const os::Say& tell) { return measure_parts(device, next, tell); }, patience, heard);
    if (answer.problem.empty()) return result;
    if (!started) {
      // If some values were measured before, keep them: the device failed after that.
      if (result.measurements.empty()) result.problem = answer.problem;
      return result;
    }
    for (Measurement& one : missing(open, answer.problem)) result.measurements.push_back(std::move(one));
  }
  result.problem = "the remaining measurements were given up, because too many hung or crashed";
  return result;
}

TestedApart test_memory_apart(const std::string& device, double patience, const MemoryTestOptions& options) {
  TestedApart result;
  const auto work = [&](const os::Say& say) {
    MemoryTestOptions asked = options;
    asked.progress = [&](const std::string& what, double seconds) {
      say(line_of({{"what", what}, {"seconds", seconds}}));
    };
    const MemoryReport report = test_memory(parse_device(device), asked);
    auto errors = Json::array();
    for (const MemoryError& one : report.errors)
      errors.push_back({one.address, one.block, one.offset, one.expected, one.found, one.pattern});
    return line_of({{"bytes", report.bytes},
                    {"checked", report.bytes_checked},
                    {"passes", report.passes},
                    {"wrong", report.wrong_words},
                    {"seconds", report.seconds},
                    {"errors", std::move(errors)}});
  };
  const os::ChildAnswer answer = ask_apart(work, patience, [&](const Json& said) {
    if (options.progress) options.progress(said["what"], said["seconds"]);
  });
  result.problem = answer.problem;
  if (!result.problem.empty()) return result;
  const Json said = Json::parse(answer.text);
  result.report = {said["bytes"], said["checked"], said["passes"], said["wrong"], {}, said["seconds"]};
  for (const Json& one : said["errors"])
    result.report.errors.push_back({one[0], one[1], one[2], one[3], one[4], one[5]});
  return result;
}

}  // namespace athanor::cli
