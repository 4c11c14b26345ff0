#include "athanor/cli/examine.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/os/child.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/cli/doing.h"
#include "athanor/examine/examine.h"

namespace athanor::cli {
namespace {

// Seconds without a word after which a device counts as hung: within a part, kernels are compiled.
constexpr double patience = 300;

// What a driver says need not be UTF-8.
void tell(const nlohmann::ordered_json& json) {
  std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
}

Examination verdict_of_child(Device device) {
  Doing doing("examining " + to_string(device) + " before its first use");
  Examination verdict;
  std::string part = "the driver was loaded", error;
  bool answered = false;
  const auto heard = [&](const std::string& line) {
    const auto said = nlohmann::json::parse(line, nullptr, false);
    if (!said.is_object()) return;  // a driver talks
    if (said.contains("part")) {
      part = "it computed " + said["part"].get<std::string>();
      doing.say(said["part"], fmt::format("{} of {}", said["number"].get<int>(), said["of"].get<int>()));
    }
    if (said.contains("error")) error = said["error"];
    if (!said.contains("wrong")) return;
    verdict = {said["wrong"].get<std::vector<std::string>>(), said["checks"], said["seconds"]};
    answered = true;
  };
  os::Child child = os::Child::of_program({os::own_program(), "examine-device", to_string(device)});
  const os::ChildAnswer answer = child.wait(patience, heard);
  if (answered) return verdict;
  // What the program itself says is no word on the device: too little memory, say.
  if (!error.empty()) throw Error(ErrorCode::device, error);
  verdict.wrong.push_back(fmt::format("the program that examined it {} while {}", answer.problem, part));
  return verdict;
}

Examination examine_apart(Device device) {
  try {
    return verdict_of_child(device);
  } catch (const Interrupted&) {
    std::cerr << fmt::format(
        "athanor: stopped while it examined {}. The next run examines it again from the start\n",
        to_string(device));
    throw;
  }
}

int examine_device(const std::string& name) {
  ExamineOptions options;
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
  command->callback([name, &exit_code] { exit_code = examine_device(*name); });
}

}  // namespace athanor::cli
