#include "athanor/doctor/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/os/child.h"
#include "athanor/base/text.h"
#include "athanor/examine/examine.h"

namespace athanor::doctor {
namespace {

constexpr double list_seconds = 20;
// Without a word: kernels are compiled on the way.
constexpr double device_seconds = 300;
// Of the wrong results that are shown.
constexpr size_t most_shown = 5;

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

void show_wrong(Finding& finding, const SelfTested& one) {
  const std::string title = fmt::format("{} ({})", one.device, one.name);
  if (one.results == 0) {  // no answer
    finding.seen(title, one.wrong.front());
    return;
  }
  finding.seen(title, fmt::format("{} of {} results are wrong", one.wrong.size(), one.results));
  for (size_t i = 0; i < std::min(one.wrong.size(), most_shown); ++i) finding.seen(one.device, one.wrong[i]);
  if (one.wrong.size() > most_shown)
    finding.seen(one.device, fmt::format("and {} more", one.wrong.size() - most_shown));
}

}  // namespace

Finding finding_of(const std::vector<SelfTested>& devices) {
  Finding finding = pass();
  std::vector<std::string> names;
  std::string what;
  for (const SelfTested& one : devices) {
    if (one.wrong.empty()) {
      finding.seen(fmt::format("{} ({})", one.device, one.name),
                   fmt::format("{} results of every op, and of a training step", one.results));
      continue;
    }
    if (finding.status != Status::fail) finding.status = one.late ? Status::warn : Status::fail;
    names.push_back(one.device);
    if (what.empty()) what = one.wrong.front();
    show_wrong(finding, one);
  }
  if (finding.status == Status::pass) return finding;
  return finding.with("device", join(names)).with("what", what);
}

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

}  // namespace athanor::doctor
