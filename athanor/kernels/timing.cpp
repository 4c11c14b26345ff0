#include "athanor/kernels/timing.h"

#include <algorithm>

#include "athanor/base/clock.h"
#include "athanor/base/os/load.h"

namespace athanor {
namespace {

// Short kernels are timed in rows of many runs, as a training step runs them. The system gives a core to one
// process for some milliseconds: a row must be shorter, or every row would be interrupted.
constexpr double row_seconds = 1e-3;
constexpr int longest_row = 1000;
constexpr size_t least_samples = 5, most_samples = 25;
// If the samples agree this well, more are not needed.
constexpr double tight_spread = 0.03, loose_spread = 0.1;  // of rows, of single runs
// The time for all samples of a kernel. Long kernels are timed fewer times.
constexpr double seconds_for_rows = 0.06, seconds_for_runs = 0.2;
// A first run above the limit is repeated: an interruption can take a hundred times as long as a short
// kernel.
constexpr int first_runs = 4;
constexpr double seconds_for_first_runs = 0.05;

std::optional<double> pretended;

double at_rank(std::vector<double> all, size_t rank) {
  const auto place = all.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(all.begin(), place, all.end());
  return *place;
}

}  // namespace

double Samples::seconds() const { return at_rank(all_, (all_.size() - 1) / 4); }

double Samples::spread() const {
  const double least = seconds();
  return least > 0 ? at_rank(all_, all_.size() / 2) / least - 1 : 0;
}

Samples take_samples(const std::function<double(int runs)>& time, double limit, double share) {
  Samples samples;
  double best = time(1), spent = best;
  for (int run = 1; best > limit && run < first_runs && spent < seconds_for_first_runs; ++run) {
    const double once = time(1);
    spent += once;
    best = std::min(best, once);
  }
  if (best > limit || best >= seconds_for_runs) {
    samples.add(best);
    return samples;
  }
  int runs = 0;
  while (samples.count() < most_samples) {
    const int wanted = static_cast<int>(std::clamp(row_seconds / best, 1.0, double{longest_row}));
    if (wanted > 2 * runs) samples = {};  // an interruption had made the rows too short
    runs = std::max(runs, wanted);
    const double row = time(runs);
    spent += row;
    samples.add(row / runs);
    best = std::min(best, row / runs);
    const bool rows = runs > 1;
    if (spent > share * (rows ? seconds_for_rows : seconds_for_runs)) break;
    if (samples.count() >= least_samples && samples.spread() < (rows ? tight_spread : loose_spread)) break;
  }
  return samples;
}

void LoadMeter::during(const std::function<void()>& work) {
  const double waited = os::waited_for_cores().value_or(0);
  const auto start = Clock::now();
  work();
  passed_ += seconds_since(start);
  waited_ += std::max(
      0.0, os::waited_for_cores().value_or(0) - waited);  // threads that ended are not counted any more
}

double LoadMeter::share() const {
  if (pretended) return *pretended;
  return passed_ > 0 ? waited_ / passed_ : 0;
}

void pretend_load(std::optional<double> share) { pretended = share; }

}  // namespace athanor
