#include "athanor/backends/cpu/part_time.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/os/load.h"
#include "athanor/base/os/threads.h"
#include "athanor/base/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace athanor::cpu {
namespace {

constexpr double burst = 0.5e-3, shortest_pause = 0.1e-3, longest_pause = 8e-3;  // seconds
// A burst that had the core for this much less was interrupted.
constexpr double interrupted = 0.2e-3;
constexpr int idle_bursts = 20;  // while no loop began; then a part-time thread sleeps until one begins
// With fewer chunks for each thread, a part-time thread would hold a large part of the loop.
constexpr int fewest_chunks = 4;
constexpr size_t most_watched = 64;

thread_local bool in_loop = false;  // see runs_chunks()

class PartTime {
 public:
  static PartTime& instance() {
    static PartTime& all = *new PartTime;  // never destroyed: no thread may be joined while the program ends
    return all;
  }

  bool run(int64_t chunks, int max_workers, const Chunks::Body& body) {
    const std::unique_lock lock(in_use_, std::try_to_lock);
    if (!lock) return false;
    start_threads();
    const int team = static_cast<int>(std::min<int64_t>({cpu_threads(), chunks, max_workers}));
    ++loops_;
    chunks_.begin(chunks, team, chunks >= fewest_chunks * team ? max_workers : team, body);
    wake_sleepers();
#ifdef _OPENMP
    if (team > 1) {
#pragma omp parallel num_threads(team)
      take_part(omp_get_thread_num());
    } else
#endif
      take_part(0);
    chunks_.end();
    return true;
  }

 private:
  PartTime() = default;

  void start_threads() {
    if (const int team = cpu_threads(); team != std::exchange(team_, team))
      for (auto& core : cores_) core = -1;
    try {
      while (started_ < part_time_threads() && !refused_) {
        std::thread([this, number = started_] { work_in_bursts(number); }).detach();
        ++started_;
      }
    } catch (const std::system_error&) {
      refused_ = true;  // the system has no thread left for this process
    }
  }

  void wake_sleepers() {
    if (asleep_ == 0) return;
    sleep_.lock();  // a thread that found no loop is asleep before it is woken
    sleep_.unlock();
    wake_.notify_all();
  }

  void take_part(int worker) {
    if (const auto at = static_cast<size_t>(worker); at < cores_.size())
      cores_[at].store(os::current_core(), std::memory_order_relaxed);
    in_loop = true;
    while (chunks_.run_one(worker)) {
    }
    in_loop = false;
  }

  [[noreturn]] void work_in_bursts(int number) {
    in_loop = true;
    os::wait_unnoticed();
    double pause = shortest_pause;
    int64_t seen = 0;
    for (int idle = 0;;) {
      const bool worth_it = stays_off_the_teams_cores() && work_for_a_burst(number);
      pause = worth_it ? shortest_pause : std::min(2 * pause, longest_pause);
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      idle = seen == loops_ ? idle + 1 : 0;
      seen = loops_;
      if (idle < idle_bursts) continue;
      ++asleep_;
      std::unique_lock lock(sleep_);
      wake_.wait(lock, [&] { return loops_ != seen; });
      --asleep_;
    }
  }

  // Returns whether it was worth it: the thread helped for a tenth of the burst, and was not interrupted.
  bool work_for_a_burst(int number) {
    const auto began = Clock::now();
    const double had = os::thread_seconds();
    double helped = 0, passed = 0;
    while (passed < burst) {
      if (chunks_.help(number)) {
        const double now = seconds_since(began);
        helped += now - passed;
        passed = now;
        continue;
      }
      for (int i = 0; i < 32; ++i) spin_once();
      passed = seconds_since(began);
    }
    return helped > 0.1 * burst && passed - (os::thread_seconds() - had) < interrupted;
  }

  // On a core of the team it would only take turns with that thread.
  bool stays_off_the_teams_cores() {
    thread_local std::vector<int> avoided;
    thread_local bool off = false;
    std::vector<int> now;
    for (const auto& core : cores_)
      if (core >= 0) now.push_back(core);
    if (now != avoided) {
      off = os::stay_off_cores(now);
      avoided = std::move(now);
    }
    return off;
  }

  std::mutex in_use_;
  Chunks chunks_;
  int started_ = 0, team_ = 0;
  bool refused_ = false;
  std::array<std::atomic<int>, most_watched> cores_;  // on which the team's threads ran last; -1: none
  std::atomic<int64_t> loops_{0};
  std::atomic<int> asleep_{0};
  std::mutex sleep_;
  std::condition_variable wake_;
};

}  // namespace

bool runs_chunks() { return in_loop; }

bool run_with_part_time_help(int64_t chunks, int max_workers, const Chunks::Body& body) {
  return PartTime::instance().run(chunks, max_workers, body);
}

}  // namespace athanor::cpu
