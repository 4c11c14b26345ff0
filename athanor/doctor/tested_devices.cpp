#include "athanor/doctor/tested_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

// At most this many wrong results are shown.
constexpr size_t most_shown = 5;

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

}  // namespace athanor::doctor
