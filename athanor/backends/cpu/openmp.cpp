#include "athanor/backends/cpu/openmp.h"

#include "athanor/backends/cpu/spinning.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace athanor::cpu {

void use_openmp_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  adapt_waiting();
  // OpenMP keeps this setting for each calling thread, so every thread that runs kernels must set it.
  thread_local int current = 0;
  if (current == threads) return;
  omp_set_num_threads(threads);
  current = threads;
#endif
}

}  // namespace athanor::cpu
