#include "athanor/doctor/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <sstream>
#include <thread>

#include "athanor/base/in_threads.h"
#include "athanor/base/os/child.h"
#include "athanor/base/text.h"
#include "athanor/doctor/tested_devices.h"
#include "athanor/examine/examine.h"
#include "athanor/kernels/kernel.h"

namespace athanor::doctor {
namespace {

constexpr double list_seconds = 20;
// Seconds without a message: kernels are compiled on the way.
constexpr double device_seconds = 300;

// Returns the number of compared results of these parts, then a line for each wrong one.
std::string test(const std::string& id, const std::vector<std::string>& parts, const os::Say& say) {
  ExamineOptions options{.whole = true, .only = parts};
  options.progress = [&](const std::string& part, size_t, size_t) { say(part); };
  const Examination verdict = examine(parse_device(id), options);
  std::string text = std::to_string(verdict.checks);
  for (const std::string& wrong : verdict.wrong) text += '\n' + wrong;
  return text;
}

// In a child: a driver that ends its process must not be loaded into this one.
void remember(const std::string& id, const Examination& verdict) {
  os::Child writer([&] {
    const Device device = parse_device(id);
    if (device != Device{}) remember_verdict(device, verdict);
    return std::string();
  });
  writer.wait(list_seconds);
}

// One process asks a device for some parts.
struct Asking {
  std::vector<std::string> parts;
  os::Child child;
  os::ChildAnswer answer = {};
  std::string part = {};  // the current one
};

struct Listed {
  std::string id, name;
  size_t processes = 1;
};

SelfTested ask(const Listed& device, const SelfTestProgress& progress) {
  const auto groups = examination_groups(device.processes, true);
  std::vector<Asking> all;
  size_t parts = 0, begun = 0;
  for (const auto& group : groups) {
    parts += group.size();
    // This thread starts all of them: a copy that another thread made meanwhile would keep another's pipe
    // open.
    all.push_back(
        {group, os::Child([id = device.id, group](const os::Say& say) { return test(id, group, say); })});
  }
  std::mutex mutex;
  in_threads(all.size(), all.size(), [&](size_t i) {
    Asking& one = all[i];
    one.answer = one.child.wait(device_seconds, [&](const std::string& said) {
      const std::scoped_lock lock(mutex);
      one.part = said;
      ++begun;
      if (progress) progress(device.id, fmt::format("{}, {} of {}", said, begun, parts));
    });
  });
  SelfTested tested{.device = device.id, .name = device.name};
  for (const Asking& one : all) {
    tested.late = tested.late || one.answer.late;
    if (!one.answer.problem.empty()) {
      tested.wrong.push_back(one.part.empty() ? one.answer.problem
                                              : fmt::format("{}: {}", one.part, one.answer.problem));
      continue;
    }
    const std::vector<std::string> lines = split(one.answer.text, '\n');
    int64_t results = 0;
    std::from_chars(lines[0].data(), lines[0].data() + lines[0].size(), results);
    tested.results += results;
    tested.wrong.insert(tested.wrong.end(), lines.begin() + 1, lines.end());
  }
  if (!tested.late) remember(device.id, {tested.wrong, tested.results, 0});
  return tested;
}

// As many processes as can compile at the same time; also several for a device that compiles side by side by
// itself, because it waits for the device between parts.
size_t processes_for(Device device) {
  if (device == Device{}) return 1;
  constexpr size_t most = 16, most_by_itself = 4;  // each has a driver's memory
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1,
                            backend_of(device).compiles_side_by_side(device.index) ? most_by_itself : most);
}

}  // namespace

Finding device_self_test(const SelfTestProgress& progress) {
  // In child processes, including drivers' libraries: a hang or crash there is a result.
  os::Child lister([] {
    std::string lines;
    for (const DeviceInfo& info : list_devices())
      lines += fmt::format("{} {} {}\n", to_string(info.device), processes_for(info.device), info.name);
    return lines;
  });
  const os::ChildAnswer devices = lister.wait(list_seconds);
  if (!devices.problem.empty())
    return fail()
        .seen("devices", devices.problem)
        .with("device", "athanor detect")
        .with("what", devices.problem);
  std::vector<SelfTested> tested;
  for (const std::string& line : split(devices.text, '\n')) {
    Listed device;
    std::istringstream words(line);
    if (!(words >> device.id >> device.processes)) continue;
    std::getline(words >> std::ws, device.name);
    tested.push_back(ask(device, progress));
  }
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
