#include "athanor/doctor/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/os/child.h"
#include "athanor/base/text.h"
#include "athanor/doctor/tested_devices.h"
#include "athanor/examine/examine.h"

namespace athanor::doctor {
namespace {

constexpr double list_seconds = 20;
// Without a word: kernels are compiled on the way.
constexpr double device_seconds = 300;

// How many results were compared, then a line for each that was wrong.
std::string test(const std::string& id, const os::Say& say) {
  const Device device = parse_device(id);
  ExamineOptions options{.whole = true};
  options.progress = [&](const std::string& part, size_t number, size_t of) {
    say(fmt::format("{}, {} of {}", part, number, of));
  };
  const Examination verdict = examine(device, options);
  if (device != Device{}) remember_verdict(device, verdict);
  std::string text = std::to_string(verdict.checks);
  for (const std::string& wrong : verdict.wrong) text += '\n' + wrong;
  return text;
}

// A driver that ends the program is not to be loaded into this one: a child writes that down, too.
void remember_crash(const std::string& id, const std::string& what) {
  os::Child writer([&] {
    const Device device = parse_device(id);
    if (device != Device{}) remember_verdict(device, {{what}, 0, 0});
    return std::string();
  });
  writer.wait(list_seconds);
}

SelfTested ask(const std::string& id, const std::string& name, const SelfTestProgress& progress) {
  SelfTested tested{.device = id, .name = name};
  std::string part;
  os::Child tester([id](const os::Say& say) { return test(id, say); });
  const os::ChildAnswer answer = tester.wait(device_seconds, [&](const std::string& said) {
    part = said;
    if (progress) progress(id, said);
  });
  tested.late = answer.late;
  if (!answer.problem.empty()) {
    tested.wrong = {part.empty() ? answer.problem : fmt::format("{}: {}", part, answer.problem)};
    if (!answer.late) remember_crash(id, tested.wrong.front());
    return tested;
  }
  const std::vector<std::string> lines = split(answer.text, '\n');
  std::from_chars(lines[0].data(), lines[0].data() + lines[0].size(), tested.results);
  tested.wrong.assign(lines.begin() + 1, lines.end());
  return tested;
}

}  // namespace

Finding device_self_test(const SelfTestProgress& progress) {
  // In child processes, drivers' libraries too: a hang or crash there is an answer.
  os::Child lister([] {
    std::string lines;
    for (const DeviceInfo& info : list_devices())
      lines += fmt::format("{} {}\n", to_string(info.device), info.name);
    return lines;
  });
  const os::ChildAnswer devices = lister.wait(list_seconds);
  if (!devices.problem.empty())
    return fail()
        .seen("devices", devices.problem)
        .with("device", "athanor detect")
        .with("what", devices.problem);
  std::vector<SelfTested> tested;
  for (const std::string& line : split(devices.text, '\n'))
    if (const size_t space = line.find(' '); space != std::string::npos)
      tested.push_back(ask(line.substr(0, space), line.substr(space + 1), progress));
  return finding_of(tested);
}

Finding remembered_examinations() {
  const auto failed = failed_examinations();
  if (failed.empty()) return skip();
  Finding finding = warn().with("device", failed.front().device);
  for (const FailedExamination& one : failed) finding.seen(one.device + ", " + one.driver, one.what);
  return finding;
}

}  // namespace athanor::doctor
