#include "athanor/kernels/trust.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "athanor/base/clock.h"
#include "athanor/base/embedded.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/tuner.h"

namespace athanor {
namespace {

struct State {
  std::mutex mutex;
  Examiner examiner;
  std::map<Device, Examination> known;  // to this process
  std::map<Device, double> waited;      // seconds, for those that were not known
  std::optional<bool> trust;
};
State& state() {
  static State instance;
  return instance;
}

thread_local bool examines_now = false;

// Other devices are compared with the host; a device that only plans are made for computes nothing.
bool needs_none(Device device) { return device == Device{} || provider_of(device).hidden().has_value(); }

// A hash that changes when a kernel's source does.
const std::string& sources_hash() {
  static const std::string hash = [] {
    std::string all;
    for (const EmbeddedFile& file : embedded_files())
      if (file.path.find("kernels/") != std::string_view::npos) all += file.content;
    return KernelCache::hash(all);
  }();
  return hash;
}

// The first findings, and how many more there are.
std::string summary(const Examination& verdict) {
  constexpr size_t shown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(shown, verdict.wrong.size()); ++i)
    text += (i == 0 ? "" : "; ") + verdict.wrong[i];
  if (verdict.wrong.size() > shown)
    text += fmt::format("; and {} more of {} checks", verdict.wrong.size() - shown, verdict.checks);
  return text;
}

Error refusal(Device device, const Examination& verdict) {
  const DeviceInfo info = info_of(device);
  const auto driver = info.properties.find("driver");
  return {ErrorCode::device,
          fmt::format("{} ({}{}) failed its examination: {}", to_string(device), info.name,
                      driver == info.properties.end() ? "" : ", " + driver->second.value, summary(verdict)),
          {},
          "Use another device (--device cpu; 'athanor detect' lists all), or another driver for this one: it "
          "is then examined anew. --trust (or ATHANOR_TRUST=1) uses it all the same"};
}

// The verdict of a device. The device is examined if none is known.
Examination verdict_of(Device device) {
  State& s = state();
  if (const auto found = s.known.find(device); found != s.known.end()) return found->second;
  Examination verdict;
  if (!remembered_verdict(device, verdict)) {
    const auto start = Clock::now();
    const auto turn = KernelCache::instance().turn_to_examine(examination_key(device));
    if (!remembered_verdict(device, verdict)) {  // another process may have examined it meanwhile
      if (!s.examiner) return {};
      verdict = s.examiner(device);
      remember_verdict(device, verdict);
    }
    s.waited[device] = seconds_since(start);
  }
  return s.known[device] = verdict;
}

}  // namespace

void Examination::add(const std::string& what, const Error& error) {
  std::string line = what + ": " + error.problem();
  const auto has_hint = [&](const std::string& earlier) {
    return earlier.find(error.hint()) != std::string::npos;
  };
  if (!error.hint().empty() && std::ranges::none_of(wrong, has_hint)) line += " (" + error.hint() + ")";
  wrong.push_back(std::move(line));
}

void require_examined(Device device) {
  if (examining() || trusting() || needs_none(device)) return;
  const std::scoped_lock lock(state().mutex);
  const Examination verdict = verdict_of(device);
  if (!verdict.right()) throw refusal(device, verdict);
}

double examination_seconds(Device device) {
  const std::scoped_lock lock(state().mutex);
  const auto found = state().waited.find(device);
  return found == state().waited.end() ? 0 : found->second;
}

void require_not_failed(Device device) {
  if (examining() || trusting() || needs_none(device)) return;
  if (Examination verdict; remembered_verdict(device, verdict) && !verdict.right())
    throw refusal(device, verdict);
}

bool trusting() {
  static const bool by_environment = [] {
    const char* value = std::getenv("ATHANOR_TRUST");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }();
  return state().trust.value_or(by_environment);
}

void set_trusting(bool trust) { state().trust = trust; }

std::string trust_note(Device device) {
  if (needs_none(device) || !trusting()) return {};
  Examination verdict;
  if (!remembered_verdict(device, verdict)) return "used without an examination (--trust)";
  if (verdict.right()) return {};
  return "used although it failed its examination (--trust): " + summary(verdict);
}

std::string examination_key(Device device) {
  return fmt::format("{}|{}|{}", environment_key(device), ATHANOR_VERSION, sources_hash());
}

bool remembered_verdict(Device device, Examination& verdict) {
  const auto found = KernelCache::instance().find_verdict(examination_key(device));
  if (found) verdict = {found->wrong, found->checks, found->seconds};
  return found.has_value();
}

std::vector<FailedExamination> failed_examinations() {
  std::vector<FailedExamination> failed;
  std::error_code unknown;
  if (!std::filesystem::exists(KernelCache::instance().file(), unknown))
    return failed;  // asking for its entries would create it
  const std::string ours = fmt::format("|{}|{}", ATHANOR_VERSION, sources_hash());
  for (const KernelCache::Entry& entry : KernelCache::instance().entries()) {
    if (entry.kind != "examined" || entry.value.empty() || !entry.key.ends_with(ours)) continue;
    const std::string environment = entry.key.substr(0, entry.key.size() - ours.size());
    const size_t bar = std::min(environment.find('|'), environment.size());
    failed.push_back({environment.substr(0, bar), environment.substr(std::min(bar + 1, environment.size())),
                      entry.value.substr(0, entry.value.find('\n'))});
  }
  return failed;
}

void remember_verdict(Device device, const Examination& verdict) {
  KernelCache::instance().store_verdict(examination_key(device),
                                        {verdict.wrong, verdict.checks, verdict.seconds});
}

void set_examiner(Examiner examiner) { state().examiner = std::move(examiner); }

bool examining() { return examines_now; }
ExaminationScope::ExaminationScope(bool examines) : before_(examines_now) { examines_now = examines; }
ExaminationScope::~ExaminationScope() { examines_now = before_; }

}  // namespace athanor
