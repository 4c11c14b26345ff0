#include "athanor/backends/cpu/spinning.h"

#ifdef _OPENMP
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/os/load.h"
#include "athanor/base/threads.h"
#endif

namespace athanor::cpu {
namespace {

// A thread that shares its core with a busy process waits for half of the time.
constexpr double busy_from = 0.25, quiet_below = 0.1;
constexpr int looks_to_be_quiet = 10;

}  // namespace

bool BusySense::operator()(double waited) {
  if (waited >= busy_from) busy_ = true;
  quiet_looks_ = waited < quiet_below ? quiet_looks_ + 1 : 0;
  if (quiet_looks_ >= looks_to_be_quiet) busy_ = false;
  return busy_;
}

#if defined(_OPENMP) && defined(__GNUC__) && !defined(__clang__)

namespace {

constexpr double seconds_between_looks = 0.1, seconds_by_thread = 0.005;  // more threads: slower looks

// With GCC's OpenMP a waiting thread spins 300,000 times, for milliseconds, before it sleeps. It spins only
// 100 times while more OpenMP threads exist than the process has cores (libgomp's manual, GOMP_SPINCOUNT). We
// cannot set the variables of libgomp: it reads them when it is loaded, before any of our code runs. So as
// long as no thread should spin, we keep some threads of another team alive. They sleep.
class SleepingTeam {
 public:
  explicit SleepingTeam(int threads)
      : thread_([this, threads] {
#pragma omp parallel num_threads(threads)
          { static_cast<void>(omp_get_thread_num()); }
          std::unique_lock lock(mutex_);
          over_.wait(lock, [this] { return ended_; });
        }) {
  }
  ~SleepingTeam() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    over_.notify_all();
    thread_.join();
  }
  SleepingTeam(const SleepingTeam&) = delete;
  SleepingTeam& operator=(const SleepingTeam&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

bool is_ours_to_set() {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    if (std::getenv(name) != nullptr) return false;
  return os::waited_for_cores().has_value();
}

class Watch {
 public:
  void look(double now) {
    const double passed = now - looked_at_;
    looked_at_ = now;
    const double waited = waited_since();
    // After a long pause without kernels the numbers mean nothing.
    if (passed > 10 * seconds_between_looks) return;
    const bool busy = sense_(waited / passed);
    if (busy == (team_ != nullptr)) return;
    // libgomp must count more threads than cores. It does not count the first thread of a further team.
    if (busy)
      team_ = std::make_unique<SleepingTeam>(std::max(0, omp_get_num_procs() - cpu_threads()) + 2);
    else
      team_.reset();
  }

 private:
  // Seconds that the threads of the calling thread's team have waited for cores since they were last asked.
  // Threads that only make batches may wait: no kernel waits for them.
  double waited_since() {
    std::vector<int64_t> threads(static_cast<size_t>(cpu_threads()));
#pragma omp parallel num_threads(static_cast<int>(threads.size()))
    threads[static_cast<size_t>(omp_get_thread_num())] = os::thread_id();
    std::map<int64_t, double> waited;
    double sum = 0;
    for (const int64_t thread : threads) {
      const auto now = os::waited_for_cores(thread);
      if (!now) continue;
      waited[thread] = *now;
      if (const auto before = waited_.find(thread); before != waited_.end()) sum += *now - before->second;
    }
    waited_ = std::move(waited);
    return sum;
  }

  BusySense sense_;
  double looked_at_ = 0;
  std::map<int64_t, double> waited_;  // by thread
  std::unique_ptr<SleepingTeam> team_;
};

}  // namespace

void adapt_waiting() {
  static const bool ours = is_ours_to_set();
  if (!ours || cpu_threads() == 1) return;
  static std::atomic<double> next{0};
  static std::mutex mutex;
  static Watch& watch = *new Watch;  // never destroyed: no thread may be joined while the program ends
  const double now = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  if (now < next.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) return;
  next = now + std::max(seconds_between_looks, cpu_threads() * seconds_by_thread);
  watch.look(now);
}

#else

void adapt_waiting() {}

#endif

}  // namespace athanor::cpu
