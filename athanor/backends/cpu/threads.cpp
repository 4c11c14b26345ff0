#include "athanor/backends/cpu/threads.h"

#include <algorithm>
#include <atomic>

#include "athanor/backends/cpu/spinning.h"
#include "athanor/base/error.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace athanor {
namespace {

std::atomic<int> wanted{0};

int available() {
#ifdef _OPENMP
  return std::max(1, omp_get_num_procs());  // follows the process's affinity
#else
  return 1;
#endif
}

}  // namespace

void set_cpu_threads(int threads) {
  if (threads < 0)
    throw Error(ErrorCode::value, "the number of threads is " + std::to_string(threads), {},
                "Give a positive number, or 0 for all cores.");
  wanted = threads;
}

int cpu_threads() {
  static const int all = available();
#ifdef _OPENMP
  const int threads = wanted.load(std::memory_order_relaxed);
  return threads > 0 ? threads : all;
#else
  return all;
#endif
}

void use_openmp_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  cpu::adapt_waiting();
  // OpenMP keeps this setting for each calling thread, so every thread that runs kernels must set it.
  thread_local int current = 0;
  if (current == threads) return;
  omp_set_num_threads(threads);
  current = threads;
#endif
}

}  // namespace athanor
