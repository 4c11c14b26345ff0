// A contest: the candidates of one request, tried one after the other.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/alike.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/references.h"
#include "athanor/kernels/trial.h"
#include "athanor/kernels/tuner.h"

namespace athanor {

/// Times the candidates of one request and handles their faults. It can be interrupted between two candidates
/// and continued later; its operands stay in the device's memory.
class Contest {
 public:
  /// `before`: the winner of a timing that was disturbed.
  Contest(Device device, KernelRequest request, std::vector<Candidate> candidates,
          std::optional<KernelCache::Winner> before = {});

  /// The candidate that try_next() tries; nullptr when all were tried, or the best is near the roofline.
  const Candidate* next() const;
  /// Checks the next candidate and times it; drops it if it cannot be compiled or is wrong. A candidate that
  /// hangs ends the program, and one that ended the program is never tried again. Hold the timing_turn().
  void try_next();
  /// Whether this process had to wait for cores, so that its times mean little.
  bool is_busy() const;
  /// When next() is nullptr: lets the best take turns, remembers the winner, and leaves the contest empty.
  /// Throws Error when no candidate can be used.
  Measured finish();

  /// Tries all. With `before`: {} as soon as this timing is disturbed too.
  std::optional<Measured> run(const TuningProgress& progress = {});
  /// Whether this candidate runs and its result is right (see expect()). Not for the host itself.
  bool is_right(size_t candidate);
  /// The candidates so far that cannot run or are wrong.
  const std::vector<LeftOut>& dropped() const { return result_.dropped; }

 private:
  struct Entry {
    std::string name;
    size_t candidate;
    double seconds, spread;
  };
  double best_seconds() const;
  Trial& trial();
  /// Fills expected_ before candidate i is compared: with the host's result or, if the host would take long,
  /// with that of another kernel (references.h).
  void expect(size_t i);
  bool is_expected(size_t i, const TrialResults& result);
  /// Runs `use`, which uses the candidate. Drops the candidate if that fails, or ended an earlier program.
  void use_marked(const Candidate& candidate, const std::function<void()>& use);
  void enter(size_t i);
  void drop(const Candidate& candidate, const Error& error);
  bool is_left_out(size_t i) const;
  void leave_out(const Candidate& candidate, const std::string& why);
  Samples time(size_t i, double limit, double share = 1);
  void run_off();
  void judge();

  Device device_;
  KernelRequest request_;
  std::vector<Candidate> candidates_;
  size_t tried_ = 0;
  std::optional<KernelCache::Winner> before_;
  std::string environment_, key_;
  Work work_;
  double least_seconds_ = 0;  // by the roofline; 0 if that is not known
  std::unique_ptr<Trial> trial_;
  LoadMeter load_;
  bool expects_ = false;
  TrialResults expected_;
  std::optional<Reference> reference_;  // the kernel whose result is expected_; none: the host's
  bool only_check_ = false;
  std::vector<Entry> entries_;
  Measured result_;
  std::optional<Error> failure_;
};

/// Names a problem on a device, for TuningCache and KernelCache.
std::string problem_key(Device device, const KernelRequest& request);
/// A text that identifies the candidates and their sources, whatever their order.
std::string fingerprint(const std::vector<Candidate>& candidates);
/// The index of the candidate with this name; the number of candidates if there is none.
size_t place_of(const std::vector<Candidate>& candidates, const std::string& name);

}  // namespace athanor
