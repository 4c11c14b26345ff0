#include "athanor/doctor/self_test.h"

#include <fmt/format.h>

#include "athanor/base/os/child.h"
#include "athanor/base/text.h"
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
  options.progress = [&](const std::string& part, size_t, size_t) { say(part); };
  const Examination verdict = examine(device, options);
  if (device != Device{}) remember_verdict(device, verdict);
  std::string text = std::to_string(verdict.checks);
  for (const std::string& wrong : verdict.wrong) text += '\n' + wrong;
  return text;
}

}  // namespace

Finding device_self_test() {
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
  Finding finding = pass();
  for (const std::string& line : split(devices.text, '\n')) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string name = line.substr(space + 1), id = line.substr(0, space);
    std::string part;
    os::Child tester([id](const os::Say& say) { return test(id, say); });
    const os::ChildAnswer answer = tester.wait(device_seconds, [&](const std::string& said) { part = said; });
    const std::vector<std::string> lines = split(answer.text, '\n');
    std::string wrong;
    if (!answer.problem.empty())
      wrong = part.empty() ? answer.problem : fmt::format("{}: {}", part, answer.problem);
    else if (lines.size() > 1)
      wrong = lines.size() == 2 ? lines[1] : fmt::format("{}; and {} more", lines[1], lines.size() - 2);
    if (answer.late) return warn().seen(name, wrong).with("device", name).with("what", wrong);
    if (!wrong.empty()) return fail().seen(name, wrong).with("device", name).with("what", wrong);
    finding.seen(name, lines.front() + " results of every op, and of a training step");
  }
  return finding;
}

}  // namespace athanor::doctor
