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
#include "athanor/kernels/alike.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/timing.h"
#include "athanor/kernels/trial_memory.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/kernels/waiting.h"

namespace athanor {
namespace {

// One that is this much slower than the best so far is not timed further.
constexpr double hopeless = 2;
constexpr double no_limit = std::numeric_limits<double>::infinity();
// The share of the roofline's rate at which nothing better is looked for.
constexpr double near_roofline = 0.9;
// Those within this of the best are timed again, at most so many.
constexpr double close = 1.15;
constexpr size_t most_finalists = 3;
constexpr std::chrono::seconds patience{60};

// Random numbers for an operand, over all the elements that its strides reach.
HostArray numbers_for(const OperandDesc& operand) {
  int64_t last = 0;
  for (int i = 0; i < operand.shape.rank(); ++i)
    last += std::max<int64_t>(0, operand.shape[i] - 1) * std::abs(operand.strides[static_cast<size_t>(i)]);
  const int64_t count = std::max(last + 1, operand.shape.size());
  std::vector<double> values(static_cast<size_t>(count));
  uint32_t state = 12345;  // any fixed numbers work, but zeros would hide mistakes
  for (double& v : values)
    v = static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) - 0.5;
  return from_doubles(operand.dtype, {count}, values);
}

// A problem in a device's memory, ready to run any candidate.
class Trial {
 public:
  Trial(Device device, const KernelRequest& request) : device_(device), request_(request) {
    for (const auto& input : request.inputs) {
      const HostArray host = numbers_for(input);
      inputs_.push_back(allocate(device, std::max<size_t>(1, host.bytes.size())));
      inputs_.back()->write(host.bytes.data(), 0, host.bytes.size());
    }
    for (const auto& output : request.outputs)
      outputs_.push_back(
          allocate(device, std::max<size_t>(1, HostArray(output.dtype, output.shape).bytes.size())));
  }

  // The results of one run, one after the other.
  std::vector<double> result(const Candidate& candidate) {
    launch(candidate);
    queue_of(device_).finish();
    std::vector<double> all;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      HostArray host(request_.outputs[i].dtype, request_.outputs[i].shape);
      outputs_[i]->read(host.bytes.data(), 0, host.bytes.size());
      const std::vector<double> one = to_doubles(host);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  Samples time(const Candidate& candidate, double limit) {
    return take_samples(
        [&](int runs) {
          return queue_of(device_).timed([&] {
            for (int i = 0; i < runs; ++i) launch(candidate);
          });
        },
        limit);
  }

 private:
  void launch(const Candidate& candidate) {
    if (!scratch_ || scratch_->bytes() < candidate.scratch_bytes)
      scratch_ = allocate(device_, std::max<size_t>(1, candidate.scratch_bytes));
    std::vector<Binding> buffers;
    for (const auto& input : inputs_) buffers.push_back({input.get(), 0});
    for (const auto& output : outputs_) buffers.push_back({output.get(), 0});
    buffers.push_back({scratch_.get(), 0});
    candidate.kernel->enqueue(queue_of(device_), buffers);
  }

  Device device_;
  const KernelRequest& request_;
  std::vector<std::shared_ptr<Storage>> inputs_;
  std::vector<std::shared_ptr<Storage>> outputs_;
  std::shared_ptr<Storage> scratch_;
};

// The request's result by the host's own kernel; {} if it has none.
std::vector<double> host_result(const KernelRequest& request) {
  const Device host{};
  const auto candidates = backend_of(host).candidates(host.index, request);
  return candidates.empty() ? std::vector<double>() : Trial(host, request).result(candidates.front());
}

// Ends the program if a kernel hangs: nothing can stop a kernel from outside.
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

// Whether two results differ by no more than rounding in the type that the request computes in.
bool agree(const std::vector<double>& a, const std::vector<double>& b, const KernelRequest& request) {
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(b[i])) return false;
    largest = std::max(largest, std::abs(a[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference <= request.rounding() * largest + 1e-12;
}

std::string key_of(Device device, const KernelRequest& request) {
  return environment_key(device) + "|" + request.key();
}

// A text that identifies the candidates and their sources.
std::string fingerprint(const std::vector<Candidate>& candidates) {
  std::string all;
  for (const Candidate& candidate : candidates) {
    all += candidate.name + '\n';
    if (const GpuCandidate* generated = candidate.kernel ? candidate.kernel->generated() : nullptr)
      for (const GpuLaunch& launch : generated->launches) all += launch.source;
  }
  return KernelCache::hash(all);
}

// Times the candidates of one request, with all that may go wrong on the way.
class Contest {
 public:
  Contest(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates)
      : device_(device),
        request_(request),
        candidates_(candidates),
        environment_(environment_key(device)),
        key_(key_of(device, request)),
        work_(work_of(request)),
        trial_(device, request) {
    least_seconds_ = KernelCache::instance().find_peak(environment_).least_seconds(work_.flops, work_.bytes);
  }

  /// With `before`, the winner of a disturbed timing: gives up as soon as this timing is disturbed too, {}.
  std::optional<Measured> run(const TuningProgress& progress = {},
                              const KernelCache::Winner* before = nullptr) {
    const bool host = device_ == Device{};
    const bool on_cores = info_of(device_).kind == "cpu";  // others have a clock and cores of their own
    const auto busy = [&] { return on_cores && load_.share() > busy_share; };
    if (!host) expected_ = host_result(request_);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      throw_if_interrupted();
      if (progress) progress(i + 1, candidates_.size());
      tell_wait("timing kernels",
                fmt::format("{} of {} for {}", i + 1, candidates_.size(), request_.op->name));
      host ? enter(i) : enter_marked(i);
      if (before != nullptr && busy()) return std::nullopt;
      if (best_ != nullptr && near_roofline * best_->seconds() < least_seconds_) {
        result_.untried = candidates_.size() - i - 1;
        break;
      }
    }
    if (best_ == nullptr)
      throw Error(
          failure_ ? failure_->code() : ErrorCode::device,
          failure_ ? failure_->problem()
                   : fmt::format("no kernel of {} can be used on {}", request_.op->name, to_string(device_)),
          {}, failure_ ? failure_->hint() : "'athanor cache clear' forgets which were found to be unusable");
    run_off();
    finish(busy(), before);
    return std::move(result_);
  }

  /// Whether this candidate runs and gives the same result as the host. Not for the host itself.
  bool is_right(size_t i) {
    expected_ = host_result(request_);
    only_check_ = true;
    enter_marked(i);
    return result_.dropped.empty();
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
      // Pressing Ctrl-C does not mean that the candidate is bad.
      const InterruptScope held;
      cache.mark(key_, candidate.name);
      {
        const Watchdog watchdog(fmt::format("trying the kernel '{}' of {} on {}", candidate.name,
                                            request_.op->name, to_string(device_)));
        try {
          enter(i);
        } catch (const Error& error) {
          failure_ = error;  // the device cannot compile or launch this one; others may work
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
    else if (!agree(expected_, result, request_)) {
      result_.dropped.emplace_back(candidates_[i].name, "its results are wrong");
      return;
    }
    if (only_check_) return;
    entries_.push_back(
        {candidates_[i].name, i, time(i, best_ == nullptr ? no_limit : hopeless * best_->seconds())});
    best_ = &*std::ranges::min_element(entries_, {}, &Entry::seconds);
  }

  Samples time(size_t i, double limit) {
    Samples samples;
    load_.during([&] { samples = trial_.time(candidates_[i], limit); });
    return samples;
  }

  // Other work on the machine changes over time: the best candidates take turns.
  void run_off() {
    std::ranges::stable_sort(entries_, {}, &Entry::seconds);
    size_t finalists = 0;
    while (finalists < std::min(entries_.size(), most_finalists) &&
           entries_[finalists].seconds() <= close * entries_.front().seconds())
      ++finalists;
    if (finalists > 1)
      for (int round = 0; round < 2; ++round)
        for (Entry& entry : std::span(entries_).first(finalists)) {
          throw_if_interrupted();
          entry.samples.add(time(entry.candidate, no_limit));
        }
    std::ranges::stable_sort(entries_, {}, &Entry::seconds);
  }

  void finish(bool busy, const KernelCache::Winner* before) {
    for (const Entry& entry : entries_) result_.times.emplace_back(entry.name, entry.seconds());
    result_.spread = entries_.front().samples.spread();
    result_.busy = busy;
    result_.disturbed = busy || result_.spread > wide_spread;
    if (before != nullptr && result_.disturbed) {
      // Both timings were disturbed, which can only make times longer: take the shorter ones.
      for (auto& [name, seconds] : result_.times)
        for (const auto& [same, earlier] : before->times)
          if (same == name) seconds = std::min(seconds, earlier);
      std::ranges::stable_sort(result_.times, {}, [](const auto& one) { return one.second; });
    }
    std::tie(result_.winner, result_.seconds) = result_.times.front();
    TuningCache::instance().remember(
        key_, {.name = result_.winner,
               .seconds = result_.seconds,
               .candidates = fingerprint(candidates_),
               .times = result_.times,
               .spread = result_.spread,
               .disturbed = result_.disturbed ? 1 + (before != nullptr ? before->disturbed : 0) : 0,
               .bucket = environment_ + "|" + bucket_of(request_),
               .work = work_.amount()});
    if (result_.seconds > 0 && !result_.disturbed)
      KernelCache::instance().raise_peak(environment_, work_.flops / result_.seconds,
                                         work_.bytes / result_.seconds);
  }

  struct Entry {
    std::string name;
    size_t candidate;
    Samples samples;
    double seconds() const { return samples.seconds(); }
  };

  Device device_;
  const KernelRequest& request_;
  const std::vector<Candidate>& candidates_;
  std::string environment_, key_;
  Work work_;
  double least_seconds_ = 0;  // by the roofline; 0 where that is not known
  Trial trial_;
  LoadMeter load_;
  std::vector<double> expected_;
  bool only_check_ = false;
  std::vector<Entry> entries_;
  const Entry* best_ = nullptr;  // of the entries so far
  Measured result_;
  std::optional<Error> failure_;
};

// The shapes of a problem's inputs: "[1, 48, 256] [1, 256, 64]".
std::string shapes_in(const std::string& key) {
  std::string shapes;
  const size_t last = key.find(" ->");
  for (size_t begin = key.find('[', key.rfind('|')); begin < last;) {
    const size_t end = key.find(']', begin);
    shapes += (shapes.empty() ? "" : " ") + key.substr(begin, end - begin + 1);
    begin = key.find('[', end);
  }
  return shapes;
}

size_t place_of(const std::vector<Candidate>& candidates, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(candidates, name, &Candidate::name) - candidates.begin());
}

// Threads take turns: two that time at once would disturb each other.
std::mutex& timing_turn() {
  static std::mutex mutex;
  return mutex;
}

// The winner of the nearest problem of the bucket; none if this problem is worth timing.
std::optional<Choice> choice_alike(Device device, const KernelRequest& request,
                                   const std::vector<Candidate>& candidates, const std::string& key) {
  const std::string environment = environment_key(device);
  const Work work = work_of(request);
  Prospect prospect{.candidates = candidates.size()};
  prospect.compiles = candidates.front().kernel && candidates.front().kernel->generated() != nullptr;
  prospect.least_seconds =
      KernelCache::instance().find_peak(environment).least_seconds(work.flops, work.bytes);
  auto alike = KernelCache::instance().find_alike(environment + "|" + bucket_of(request));
  std::erase_if(alike,
                [&](const auto& one) { return place_of(candidates, one.second.name) == candidates.size(); });
  const auto ratio = [&](const auto& one) {
    return one.second.work > 0 ? work.amount() / one.second.work : 1;
  };
  const auto nearest = std::ranges::min_element(
      alike, {}, [&](const auto& one) { return std::abs(std::log(std::max(ratio(one), 1e-9))); });
  if (nearest != alike.end()) prospect.seconds = nearest->second.seconds * ratio(*nearest);
  prospect.alike = alike.size();
  if (worth_timing(prospect)) return std::nullopt;
  if (nearest == alike.end()) return Choice{0, "first of the list: too small to be timed", {}};
  const size_t index = place_of(candidates, nearest->second.name);
  if (device != Device{} && !Contest(device, request, candidates).is_right(index)) return std::nullopt;
  if (nearest->second.disturbed == 0)  // the next process then takes the same
    KernelCache::instance().store_winner(
        key, {.name = candidates[index].name, .candidates = fingerprint(candidates)});
  return Choice{index, fmt::format("as for {}", shapes_in(nearest->first)), {}};
}

}  // namespace

Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              bool measure, const TuningProgress& progress) {
  throw_if_interrupted();
  if (candidates.size() == 1) return {0, "only candidate", {}};
  if (request.output().shape.size() == 0) return {0, "empty", {}};
  const std::string key = key_of(device, request);
  TuningCache& cache = TuningCache::instance();
  std::optional<KernelCache::Winner> winner;
  size_t remembered = candidates.size();
  // Whether nothing is left to be timed.
  const auto settled = [&] {
    winner = cache.find(key, fingerprint(candidates), measure);
    remembered = winner ? place_of(candidates, winner->name) : candidates.size();
    if (remembered == candidates.size()) winner.reset();
    return winner && !(winner->disturbed > 0 && winner->disturbed < most_disturbed && cache.is_quiet());
  };
  bool known = settled();
  std::unique_lock turn(timing_turn(), std::defer_lock);
  if (!known && measure) {
    const int64_t timed = cache.timed();
    turn.lock();
    if (cache.timed() != timed) known = settled();  // another thread may have timed it
  }
  if (known)
    return {remembered,
            winner->times.empty() && !cache.is_restored(key)
                ? "remembered from a problem that is alike"
                : fmt::format("remembered as the fastest of {}", candidates.size()),
            std::move(winner->times)};
  if (!measure) return {0, "first of the list: tuning is off", {}};
  if (!winner)
    if (auto alike = choice_alike(device, request, candidates, key)) {
      cache.take(key, {.name = candidates[alike->index].name, .candidates = fingerprint(candidates)});
      return *alike;
    }
  if (!fits_trial(device, request)) {
    if (!winner) return {0, "first of the list: too large to be timed", {}};
    return {remembered, fmt::format("remembered as the fastest of {}, provisional", candidates.size()),
            std::move(winner->times)};
  }
  auto measured = Contest(device, request, candidates).run(progress, winner ? &*winner : nullptr);
  if (!measured) {
    cache.found_busy();
    return {remembered, fmt::format("remembered as the fastest of {}, provisional", candidates.size()),
            std::move(winner->times)};
  }
  std::string why = fmt::format("fastest of {} by timing", measured->times.size());
  if (winner) why += ", again";
  if (measured->disturbed)
    why += measured->busy ? ", provisional (the machine was busy)" : ", provisional (samples differ)";
  if (measured->untried > 0) why += fmt::format("; near the roofline, {} not tried", measured->untried);
  return {place_of(candidates, measured->winner), std::move(why), std::move(measured->times)};
}

std::string environment_key(Device device) { return environment_key(info_of(device)); }

std::string environment_key(const DeviceInfo& info) {
  std::string key = info.name;
  for (const std::string& name : info.environment)
    if (auto found = info.properties.find(name); found != info.properties.end())
      key += "|" + found->second.value;
  return key;
}

Measured measure(Device device, const KernelRequest& request) {
  require_examined(device);
  const auto candidates = backend_of(device).candidates(device.index, request);
  if (candidates.empty())
    throw Error(ErrorCode::device, fmt::format("{} has no kernel for {}", to_string(device), request.key()),
                {}, "It computes this op from primitives, among which there is nothing to choose.");
  const std::scoped_lock turn(timing_turn());
  return *Contest(device, request, candidates).run();
}

void prepare(const std::vector<const Kernel*>& kernels) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&, examines = examining()] {
    const ExaminationScope scope(examines);
    for (size_t i = next++; i < kernels.size(); i = next++) try {
        throw_if_interrupted();
        tell_wait("compiling kernels",
                  fmt::format("{} of {}", i + 1, kernels.size()));  // of the caller's thread
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
