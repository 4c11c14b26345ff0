#include "athanor/backends/cpu/parallel.h"

#ifdef _OPENMP
#include <omp.h>

#include <algorithm>
#include <exception>
#include <functional>

#include "athanor/backends/cpu/part_time.h"
#include "athanor/backends/cpu/spinning.h"
#endif

namespace athanor::cpu {

void parallel_for(int64_t count, [[maybe_unused]] int64_t work, RangeBody body,
                  [[maybe_unused]] int max_threads) {
  if (count <= 0) return;
#ifdef _OPENMP
  constexpr int64_t worthwhile = 16 * 1024;
  const int64_t threads = std::min({int64_t{max_threads}, count, work / worthwhile + 1});
  const bool divided = threads > 1 && !omp_in_parallel() && !runs_chunks();
  if (divided) adapt_waiting();
  if (divided && part_time_threads() > 0) {
    // Chunks are short, so that nobody waits long for one, and long enough for their overhead.
    const int64_t chunks =
        std::min({int64_t{32} * cpu_threads(), Chunks::most, count, work / worthwhile + 1});
    const auto chunk = [&](int64_t i, int worker) {
      body(count * i / chunks, count * (i + 1) / chunks, worker);
    };
    if (run_with_part_time_help(chunks, static_cast<int>(threads), std::ref(chunk))) return;
  }
  if (divided) {
    std::exception_ptr error;
    int error_thread = -1;
#pragma omp parallel num_threads(std::min(static_cast<int>(threads), cpu_threads()))
    {
      const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
      const int64_t begin = count * me / team, end = count * (me + 1) / team;
      try {
        if (begin < end) body(begin, end, static_cast<int>(me));
      } catch (...) {
#pragma omp critical(athanor_parallel_for)
        if (error_thread < 0 || me < error_thread) {
          error = std::current_exception();
          error_thread = static_cast<int>(me);
        }
      }
    }
    if (error) std::rethrow_exception(error);
    return;
  }
#endif
  body(0, count, 0);
}

}  // namespace athanor::cpu
