#include "athanor/kernels/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <tuple>

#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {
namespace {

constexpr size_t most_samples = 5;
// Short kernels are timed many in a row, as a step runs them: threads that wait for work may start on one
// core.
constexpr double least_sample = 5e-3;
// One that is this much slower than the best so far after one run is not timed again.
constexpr double hopeless = 2;
// The share of the roofline's rate at which nothing better is looked for.
constexpr double near_roofline = 0.9;
// Those within this of the best are timed again, at most so many.
constexpr double close = 1.15;
constexpr size_t most_finalists = 3;
constexpr std::chrono::seconds patience{60};
// Long kernels are timed fewer times: one run of a second says enough.
constexpr double time_budget = 0.2;

// Random numbers for an operand, over all the elements that its strides reach.
HostArray numbers_for(const OperandDesc& operand) {
  int64_t last = 0;
  for (int i = 0; i < operand.shape.rank(); ++i)
    last += std::max<int64_t>(0, operand.shape[i] - 1) * std::abs(operand.strides[static_cast<size_t>(i)]);
  const int64_t count = std::max(last + 1, operand.shape.size());
  std::vector<double> values(static_cast<size_t>(count));
  uint32_t state = 12345;  // any fixed numbers will do, but zeros would hide mistakes
  for (double& v : values)
    v = static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) - 0.5;
  return from_doubles(operand.dtype, {count}, values);
}

// A problem laid out in a device's memory, ready to run any candidate.
class Trial {
 public:
  Trial(Device device, const KernelRequest& request) : device_(device), request_(request) {
    for (const auto& input : request.inputs) {
      const HostArray host = numbers_for(input);
      inputs_.push_back(allocate(device, std::max<size_t>(1, host.bytes.size())));
      inputs_.back()->write(host.bytes.data(), 0, host.bytes.size());
    }
    output_ = allocate(
        device, std::max<size_t>(1, HostArray(request.output.dtype, request.output.shape).bytes.size()));
  }

  // The result of one run.
  std::vector<double> result(const Candidate& candidate) {
    launch(candidate);
    HostArray host(request_.output.dtype, request_.output.shape);
    output_->read(host.bytes.data(), 0, host.bytes.size());
    return to_doubles(host);
  }

  // Seconds of a run, the median of some samples; of one sample, where that is `limit` or more.
  double time(const Candidate& candidate, double limit) {
    int runs = 1;
    const auto sample = [&] {
      return backend_of(device_).timed(device_.index, [&] {
        for (int i = 0; i < runs; ++i) launch(candidate);
      }) / runs;
    };
    const double once = sample();
    if (once > limit && once > least_sample) return once;
    runs = static_cast<int>(std::clamp(least_sample / once, 1.0, 1000.0));
    std::vector<double> seconds;
    if (runs == 1) seconds.push_back(once);
    for (double total = once; seconds.empty() || (seconds.size() < most_samples && total < time_budget);) {
      seconds.push_back(sample());
      total += seconds.back() * runs;
      if (seconds.front() > limit) return seconds.front();
    }
    const auto middle = seconds.begin() + static_cast<int64_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

 private:
  void launch(const Candidate& candidate) {
    if (!scratch_ || scratch_->bytes() < candidate.scratch_bytes)
      scratch_ = allocate(device_, std::max<size_t>(1, candidate.scratch_bytes));
    std::vector<void*> buffers;
    for (const auto& input : inputs_) buffers.push_back(input->address());
    buffers.push_back(output_->address());
    buffers.push_back(scratch_->address());
    candidate.kernel->run(buffers);
  }

  Device device_;
  const KernelRequest& request_;
  std::vector<std::shared_ptr<Storage>> inputs_;
  std::shared_ptr<Storage> output_, scratch_;
};

// What the request gives by the host's own kernel; {} where it has none.
std::vector<double> host_result(const KernelRequest& request) {
  const Device host{};
  const auto candidates = backend_of(host).candidates(host.index, request);
  return candidates.empty() ? std::vector<double>() : Trial(host, request).result(candidates.front());
}

// Ends the program when nobody has called off in time what may hang: a kernel cannot be stopped from outside.
class Watchdog {
 public:
  explicit Watchdog(std::string what)
      : thread_([this, what = std::move(what)] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, patience, [this] { return called_off_; })) return;
          fmt::print(
              stderr,
              "athanor: error: {} has not come back for {} s. It is marked, and will not be tried again: "
              "run the same command once more.\n",
              what, patience.count());
          std::_Exit(1);
        }) {}
  ~Watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      called_off_ = true;
    }
    over_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool called_off_ = false;
  std::thread thread_;  // last: it uses the others
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

std::optional<KernelCache::Winner> TuningCache::find(const std::string& key, const std::string& candidates,
                                                     bool measured) {
  std::optional<KernelCache::Winner> winner;
  if (auto found = restored_.find(key); found != restored_.end()) {
    winner = KernelCache::Winner{.name = found->second};
  } else if (measured) {
    // What this process has taken once it takes again, whatever others have measured since.
    if (auto known = known_.find(key); known != known_.end())
      winner = known->second;
    else
      winner = KernelCache::instance().find_winner(key);
    if (winner && winner->candidates != candidates) winner.reset();
    if (winner) known_[key] = *winner;
  }
  if (winner) used_[key] = winner->name;
  return winner;
}

void TuningCache::remember(const std::string& key, const KernelCache::Winner& winner) {
  used_[key] = winner.name;
  known_[key] = winner;
  KernelCache::instance().store_winner(key, winner);
}

void TuningCache::restore(const std::map<std::string, std::string>& winners) {
  for (const auto& [key, winner] : winners) restored_[key] = winner;
}

namespace {

std::string key_of(Device device, const KernelRequest& request) {
  return environment_key(device) + "|" + request.key();
}

// Names the candidates and what they are made of.
std::string fingerprint(const std::vector<Candidate>& candidates) {
  std::string all;
  for (const Candidate& candidate : candidates) {
    all += candidate.name + '\n';
    if (const GpuCandidate* generated = candidate.kernel ? candidate.kernel->generated() : nullptr)
      for (const GpuLaunch& launch : generated->launches) all += launch.source;
  }
  return KernelCache::hash(all);
}

// Arithmetic and memory traffic that a request needs at least.
struct Work {
  double flops = 0, bytes = 0;
  explicit Work(const KernelRequest& request) {
    std::vector<TensorType> types;
    const auto add = [&](const OperandDesc& operand) {
      bytes += static_cast<double>(operand.shape.size()) * static_cast<double>(size_of(operand.dtype));
    };
    for (const OperandDesc& input : request.inputs) {
      add(input);
      types.push_back({input.dtype, input.shape, {}});
    }
    add(request.output);
    if (request.op->flops)
      flops = static_cast<double>(
          request.op->flops(types, {request.output.dtype, request.output.shape, {}}, request.attrs));
  }
};

// Times the candidates of one request, with all that may go wrong on the way.
class Contest {
 public:
  Contest(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates)
      : device_(device),
        request_(request),
        candidates_(candidates),
        environment_(environment_key(device)),
        key_(key_of(device, request)),
        work_(request),
        trial_(device, request) {
    const KernelCache::Peak peak = KernelCache::instance().find_peak(environment_);
    // A few problems say little of what a device can do.
    constexpr int64_t enough = 8;
    if (peak.problems >= enough && peak.flops_per_second > 0 && peak.bytes_per_second > 0)
      least_seconds_ = std::max(work_.flops / peak.flops_per_second, work_.bytes / peak.bytes_per_second);
  }

  Measured run(const TuningProgress& progress = {}) {
    const bool host = device_ == Device{};
    if (!host) expected_ = host_result(request_);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (progress) progress(i + 1, candidates_.size());
      host ? enter(i) : enter_marked(i);
      if (!result_.winner.empty() && near_roofline * result_.seconds < least_seconds_) {
        result_.untried = candidates_.size() - i - 1;
        break;
      }
    }
    if (result_.winner.empty())
      throw Error(
          failure_ ? failure_->code() : ErrorCode::device,
          failure_ ? failure_->problem()
                   : fmt::format("no kernel of {} can be used on {}", request_.op->name, to_string(device_)),
          {}, failure_ ? failure_->hint() : "'athanor cache clear' forgets which were found to be unusable");
    run_off();
    TuningCache::instance().remember(
        key_, {result_.winner, result_.seconds, fingerprint(candidates_), result_.times});
    if (result_.seconds > 0)
      KernelCache::instance().raise_peak(environment_, work_.flops / result_.seconds,
                                         work_.bytes / result_.seconds);
    return std::move(result_);
  }

 private:
  void enter_marked(size_t i) {
    const Candidate& candidate = candidates_[i];
    KernelCache& cache = KernelCache::instance();
    if (cache.is_marked(key_, candidate.name)) {
      result_.dropped.emplace_back(candidate.name, "the program ended while it was tried");
      return;
    }
    {
      // Who presses Ctrl-C does not mean that the candidate is a bad one.
      const InterruptScope held;
      cache.mark(key_, candidate.name);
      {
        const Watchdog watchdog(fmt::format("trying the kernel '{}' of {} on {}", candidate.name,
                                            request_.op->name, to_string(device_)));
        try {
          enter(i);
        } catch (const Error& error) {
          failure_ = error;  // one that this device cannot compile or launch is no choice; others may be
          result_.dropped.emplace_back(candidate.name, error.problem());
        }
      }
      cache.unmark(key_, candidate.name);
    }
    deliver_interrupt();
  }

  void enter(size_t i) {
    const std::vector<double> result = trial_.result(candidates_[i]);  // compiles and warms, too
    if (expected_.empty())
      expected_ = result;
    else if (!agree(expected_, result, request_.output.dtype)) {
      result_.dropped.emplace_back(candidates_[i].name, "its results are wrong");
      return;
    }
    const bool first = result_.winner.empty();
    const double seconds = trial_.time(
        candidates_[i], first ? std::numeric_limits<double>::infinity() : hopeless * result_.seconds);
    result_.times.emplace_back(candidates_[i].name, seconds);
    if (first || seconds < result_.seconds) result_.seconds = seconds, result_.winner = candidates_[i].name;
  }

  // What else the machine does changes from one candidate's turn to the next: the best ones take turns, and
  // of each the best time counts.
  void run_off() {
    auto& times = result_.times;
    std::ranges::stable_sort(times, {}, [](const auto& entry) { return entry.second; });
    size_t finalists = 0;
    while (finalists < std::min(times.size(), most_finalists) &&
           times[finalists].second <= close * result_.seconds)
      ++finalists;
    if (finalists < 2) return;
    for (int round = 0; round < 2; ++round)
      for (auto& [name, seconds] : std::span(times).first(finalists))
        seconds = std::min(seconds, trial_.time(*std::ranges::find(candidates_, name, &Candidate::name),
                                                std::numeric_limits<double>::infinity()));
    std::ranges::stable_sort(times, {}, [](const auto& entry) { return entry.second; });
    std::tie(result_.winner, result_.seconds) = times.front();
  }

  Device device_;
  const KernelRequest& request_;
  const std::vector<Candidate>& candidates_;
  std::string environment_, key_;
  Work work_;
  double least_seconds_ = 0;  // by the roofline; 0 where that is not known
  Trial trial_;
  std::vector<double> expected_;
  Measured result_;
  std::optional<Error> failure_;
};

}  // namespace

Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              bool measure, const TuningProgress& progress) {
  if (candidates.size() == 1) return {0, "only candidate", {}};
  if (request.output.shape.size() == 0) return {0, "empty", {}};
  const std::string key = key_of(device, request);
  if (auto winner = TuningCache::instance().find(key, fingerprint(candidates), measure))
    for (size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].name == winner->name)
        return {i, fmt::format("remembered as the fastest of {}", candidates.size()),
                std::move(winner->times)};
  if (!measure) return {0, "first of the list: tuning is off", {}};
  Measured measured = Contest(device, request, candidates).run(progress);
  const auto won = std::ranges::find(candidates, measured.winner, &Candidate::name);
  std::string why = fmt::format("fastest of {} by timing", measured.times.size());
  if (measured.untried > 0) why += fmt::format("; near the roofline, {} not tried", measured.untried);
  return {static_cast<size_t>(won - candidates.begin()), std::move(why), std::move(measured.times)};
}

std::string environment_key(Device device) {
  const DeviceInfo info = info_of(device);
  std::string key = info.name;
  for (const char* name : {"driver", "vector instructions", "threads", "oneDNN"})
    if (auto found = info.properties.find(name); found != info.properties.end())
      key += "|" + found->second.value;
  return key;
}

Measured measure(Device device, const KernelRequest& request) {
  const auto candidates = backend_of(device).candidates(device.index, request);
  if (candidates.empty())
    throw Error(ErrorCode::device, fmt::format("{} has no kernel for {}", to_string(device), request.key()),
                {}, "It computes this op from primitives, among which there is nothing to choose.");
  return Contest(device, request, candidates).run();
}

void prepare(const std::vector<const Kernel*>& kernels) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < kernels.size(); i = next++) try {
        kernels[i]->prepare();
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
      }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>(kernels.size(), std::thread::hardware_concurrency());
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace athanor
