#include "athanor/kernels/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "athanor/base/file.h"

namespace athanor {
namespace {

constexpr int schema = 1;
constexpr int timed_runs = 5;
// Long kernels are timed fewer times: one run of a second says enough.
constexpr double time_budget = 0.2;

std::filesystem::path cache_file() {
  if (const char* folder = std::getenv("ATHANOR_CACHE")) return std::filesystem::path(folder) / "tuning.json";
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder && *folder)
    return std::filesystem::path(folder) / "athanor" / "tuning.json";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".cache" / "athanor" / "tuning.json";
  return {};
}

// What a measurement depends on besides the problem.
std::string environment_key(Device device) {
  const DeviceInfo info = info_of(device);
  std::string key = info.name;
  for (const char* name : {"driver", "vector instructions", "threads", "oneDNN"})
    if (auto found = info.properties.find(name); found != info.properties.end())
      key += "|" + found->second.value;
  return key;
}

// A problem laid out in device memory, ready to run any candidate.
class Trial {
 public:
  Trial(Device device, const KernelRequest& request) : device_(device), request_(request) {
    for (const auto& input : request.inputs) inputs_.push_back(fill(input));
    output_ = allocate(device, std::max<size_t>(1, bytes(request.output)));
  }

  // Seconds of the median run, and the result.
  double time(const Candidate& candidate, std::vector<double>& result) {
    const auto scratch = allocate(device_, std::max<size_t>(1, candidate.scratch_bytes));
    std::vector<void*> buffers;
    for (const auto& input : inputs_) buffers.push_back(input->address());
    buffers.push_back(output_->address());
    buffers.push_back(scratch->address());
    std::vector<double> seconds;
    double total = 0;
    candidate.kernel->run(buffers);  // warm
    while (seconds.size() < timed_runs && (total < time_budget || seconds.empty())) {
      const auto start = std::chrono::steady_clock::now();
      candidate.kernel->run(buffers);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      total += seconds.back();
    }
    HostArray host(request_.output.dtype, request_.output.shape);
    output_->read(host.bytes.data(), 0, host.bytes.size());
    result = to_doubles(host);
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                     seconds.end());
    return seconds[seconds.size() / 2];
  }

 private:
  // Bytes from the first to the last element that the strides reach.
  static size_t bytes(const OperandDesc& operand) {
    int64_t last = 0;
    for (int i = 0; i < operand.shape.rank(); ++i)
      last += std::max<int64_t>(0, operand.shape[i] - 1) * std::abs(operand.strides[static_cast<size_t>(i)]);
    return static_cast<size_t>(std::max(last + 1, operand.shape.size())) * size_of(operand.dtype);
  }

  std::shared_ptr<Storage> fill(const OperandDesc& operand) {
    const size_t count = bytes(operand) / size_of(operand.dtype);
    std::vector<double> values(count);
    uint32_t state = 12345;  // any fixed numbers will do, but zeros would hide mistakes
    for (double& v : values)
      v = static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) - 0.5;
    const HostArray host = from_doubles(operand.dtype, {static_cast<int64_t>(count)}, values);
    auto storage = allocate(device_, std::max<size_t>(1, host.bytes.size()));
    storage->write(host.bytes.data(), 0, host.bytes.size());
    return storage;
  }

  Device device_;
  const KernelRequest& request_;
  std::vector<std::shared_ptr<Storage>> inputs_;
  std::shared_ptr<Storage> output_;
};

bool agree(const std::vector<double>& a, const std::vector<double>& b, DType dtype) {
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(b[i])) return false;
    largest = std::max(largest, std::abs(a[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference <= (size_of(dtype) < 4 ? 3e-2 : 1e-3) * largest + 1e-12;
}

}  // namespace

TuningCache& TuningCache::instance() {
  static TuningCache cache;
  return cache;
}

TuningCache::TuningCache() { load(); }

void TuningCache::load() {
  const auto file = cache_file();
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return;
  try {
    const auto json = nlohmann::json::parse(read_text_file(file), nullptr, false);
    if (!json.is_object() || json.value("schema", 0) != schema) return;
    const auto winners = json.value("winners", nlohmann::json::object());
    for (const auto& [key, winner] : winners.items())
      if (winner.is_string()) remembered_.emplace(key, winner.get<std::string>());
  } catch (const std::exception&) {
    // A cache that cannot be read is measured anew: it holds nothing that is not found again.
  }
}

std::string TuningCache::find(const std::string& key, bool measured) {
  auto found = restored_.find(key);
  if (found == restored_.end()) {
    found = remembered_.find(key);
    if (found == remembered_.end() || !measured) return {};
  }
  used_[key] = found->second;
  return found->second;
}

void TuningCache::remember(const std::string& key, const std::string& winner) {
  remembered_[key] = used_[key] = winner;
  save();
}

void TuningCache::restore(const std::map<std::string, std::string>& winners) {
  for (const auto& [key, winner] : winners) restored_[key] = winner;
}

void TuningCache::save() {
  const auto file = cache_file();
  if (file.empty()) return;
  load();  // what other processes have found since
  try {
    std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file.string(),
                          nlohmann::json{{"schema", schema}, {"winners", remembered_}}.dump(1));
  } catch (const std::exception&) {
    // A cache that cannot be written costs time, nothing else: `athanor explain` shows what was measured.
  }
}

Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              bool measure) {
  if (candidates.size() == 1) return {0, "only candidate", {}};
  if (request.output.shape.size() == 0) return {0, "empty", {}};
  const std::string key = environment_key(device) + "|" + request.key();
  auto& cache = TuningCache::instance();
  if (const std::string winner = cache.find(key, measure); !winner.empty())
    for (size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].name == winner)
        return {i, fmt::format("remembered as the fastest of {}", candidates.size()), {}};
  if (!measure) return {0, "first of the list: tuning is off", {}};
  Trial trial(device, request);
  Choice choice;
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> expected;
  for (size_t i = 0; i < candidates.size(); ++i) {
    std::vector<double> result;
    const double seconds = trial.time(candidates[i], result);
    if (i == 0)
      expected = result;
    else if (!agree(expected, result, request.output.dtype))
      continue;
    choice.measured.emplace_back(candidates[i].name, seconds);
    if (seconds < best) best = seconds, choice.index = i;
  }
  choice.why = fmt::format("fastest of {} by timing", choice.measured.size());
  cache.remember(key, candidates[choice.index].name);
  return choice;
}

}  // namespace athanor
