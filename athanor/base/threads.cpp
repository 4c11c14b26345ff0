#include "athanor/base/threads.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "athanor/base/error.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace athanor {
namespace {

std::atomic<int> wanted{0}, helping{0};

int available() {
#ifdef _OPENMP
  return std::max(1, omp_get_num_procs());  // follows the process's affinity
#else
  return 1;
#endif
}

}  // namespace

void set_cpu_threads(int threads, int part_time) {
  for (const int number : {threads, part_time})
    if (number < 0)
      throw Error(ErrorCode::value, "the number of threads is " + std::to_string(number), {},
                  "Give a positive number, or 0 for all cores.");
  wanted = threads;
  helping = part_time;
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

int part_time_threads() {
#ifdef _OPENMP
  return helping.load(std::memory_order_relaxed);
#else
  return 0;
#endif
}

int cpu_workers() { return cpu_threads() + part_time_threads(); }

}  // namespace athanor
