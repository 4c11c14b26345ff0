// How long a kernel takes: samples, and whether other work on the machine disturbed them.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace athanor {

/// Measured seconds of a run. Other work on the machine can only make a sample longer.
class Samples {
 public:
  void add(double seconds) { all_.push_back(seconds); }
  void add(const Samples& more) { all_.insert(all_.end(), more.all_.begin(), more.all_.end()); }
  size_t count() const { return all_.size(); }
  /// The time of an undisturbed run: the lower quartile. It is right if at least every fourth sample is
  /// undisturbed, and one sample that is too short does not change it. Needs at least one sample.
  double seconds() const;
  /// How far the middle sample lies above seconds(), as a share of it: 0.02 on a quiet machine.
  double spread() const;

 private:
  std::vector<double> all_;
};

/// Takes samples until they agree, for at most `share` of some tenths of a second. `time(runs)` returns the
/// seconds of that many runs in a row. Stops early if several runs all take longer than `limit`.
Samples take_samples(const std::function<double(int runs)>& time, double limit, double share = 1);

/// Measures how long this process waits for cores that other processes use.
class LoadMeter {
 public:
  /// Calls `work` and measures meanwhile.
  void during(const std::function<void()>& work);
  /// Seconds that all threads together waited for cores, per second of work. If one thread shares its core
  /// with a busy process, this is about 0.5. 0 if the system does not say.
  double share() const;

 private:
  double passed_ = 0, waited_ = 0;
};

/// A timing is disturbed, and its result provisional, if LoadMeter::share() or the spread is larger than
/// this.
constexpr double busy_share = 0.1, wide_spread = 0.25;
/// A result that was disturbed this many times in a row is kept: the machine does not become quiet.
constexpr int most_disturbed = 4;

/// For tests: LoadMeter::share() returns this from now on. {} ends that.
void pretend_load(std::optional<double> share);

}  // namespace athanor
