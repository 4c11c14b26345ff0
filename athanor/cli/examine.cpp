#include "athanor/cli/examine.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/in_threads.h"
#include "athanor/base/os/child.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/cli/doing.h"
#include "athanor/examine/examine.h"
#include "athanor/kernels/kernel.h"

namespace athanor::cli {
namespace {

// A device counts as hung after this many seconds without a message: within a part, kernels are compiled.
constexpr double patience = 300;

// A driver's messages need not be UTF-8.
void tell(const nlohmann::ordered_json& json) {
  std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
}

// The verdict of further processes on a device, each of which examines some parts.
class Verdict {
 public:
  Verdict(Device device, size_t parts)
      : device_(device),
        doing_("examining " + to_string(device) + " before its first use"),
        parts_(parts),
        start_(Clock::now()) {}

  /// Examines these parts in a process of their own, until something is wrong in any. Several threads may
  /// call it.
  void ask(const std::vector<std::string>& parts) {
    std::string part = "the driver was loaded", error;
    bool answered = false;
    const auto heard = [&](const std::string& line) {
      const auto said = nlohmann::json::parse(line, nullptr, false);
      if (!said.is_object()) return;  // output of a driver
      const std::scoped_lock lock(mutex_);
      if (said.contains("part")) {
        if (!verdict_.right()) throw RefusedAlready();
        part = "it computed " + said["part"].get<std::string>();
        doing_.say(said["part"], fmt::format("{} of {}", ++begun_, parts_));
      }
      if (said.contains("error")) error = said["error"];
      if (!said.contains("wrong")) return;
      for (const auto& wrong : said["wrong"]) verdict_.wrong.push_back(wrong);
      verdict_.checks += said["checks"].get<int64_t>();
      answered = true;
    };
    std::vector<std::string> words{os::own_program(), "examine-device", to_string(device_)};
    words.insert(words.end(), parts.begin(), parts.end());
    os::Child child = os::Child::of_program(std::move(words));
    os::ChildAnswer answer;
    try {
      answer = child.wait(patience, heard);
    } catch (const RefusedAlready&) {
      return;  // the child ends here
    }
    if (answered) return;
    // An error of the program itself, such as too little memory, says nothing about the device.
    if (!error.empty()) throw Error(ErrorCode::device, error);
    const std::scoped_lock lock(mutex_);
    verdict_.wrong.push_back(fmt::format("the program that examined it {} while {}", answer.problem, part));
  }

  Examination take() {
    verdict_.seconds = seconds_since(start_);
    return std::move(verdict_);
  }

 private:
  struct RefusedAlready {};
  Device device_;
  Doing doing_;
  size_t parts_, begun_ = 0;
  Clock::time_point start_;
  std::mutex mutex_;
  Examination verdict_;
};

// If a process compiles only one kernel at a time, there is one process for each core, for some of the parts.
Examination verdict_of_children(Device device) {
  const bool one = backend_of(device).compiles_side_by_side(device.index);
  const auto groups = examination_groups(one ? 1 : std::thread::hardware_concurrency());
  size_t parts = 0;
  for (const auto& group : groups) parts += group.size();
  Verdict verdict(device, parts);
  in_threads(groups.size(), groups.size(), [&](size_t i) { verdict.ask(groups[i]); });
  return verdict.take();
}

Examination examine_apart(Device device) {
  try {
    return verdict_of_children(device);
  } catch (const Interrupted&) {
    std::cerr << fmt::format(
        "athanor: stopped while it examined {}. The next run examines it again from the start\n",
        to_string(device));
    throw;
  }
}

int examine_device(const std::string& name, const std::vector<std::string>& parts) {
  ExamineOptions options;
  options.only = parts;
  options.progress = [](const std::string& part, size_t number, size_t of) {
    tell({{"part", part}, {"number", number}, {"of", of}});
  };
  try {
    const Examination verdict = examine(parse_device(name), options);
    tell({{"wrong", verdict.wrong}, {"checks", verdict.checks}, {"seconds", verdict.seconds}});
  } catch (const Error& error) {
    tell({{"error", error.what()}});
  }
  return 0;
}

}  // namespace

void examine_devices_apart() {
  if (!os::own_program().empty()) set_examiner(examine_apart);
}

void add_examine_device(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("examine-device", "Examine a device and print the verdict")
                          ->group("");  // for the program itself
  const auto name = std::make_shared<std::string>();
  command->add_option("DEVICE", *name)->required();
  const auto parts = std::make_shared<std::vector<std::string>>();
  command->add_option("PART", *parts);
  command->callback([name, parts, &exit_code] { exit_code = examine_device(*name, *parts); });
}

}  // namespace athanor::cli
