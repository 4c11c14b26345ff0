#include "athanor/base/os/load.h"

#ifdef __linux__
#include <filesystem>
#include <fstream>
#endif

namespace athanor::os {

std::optional<double> waited_for_cores() {
#ifdef __linux__
  // Each thread's schedstat: nanoseconds that it ran, that it waited for a core, and how often it ran.
  namespace fs = std::filesystem;
  std::optional<double> sum;
  std::error_code gone;  // threads end meanwhile
  for (fs::directory_iterator thread("/proc/self/task", gone), end; !gone && thread != end;
       thread.increment(gone)) {
    std::ifstream file(thread->path() / "schedstat");
    if (double ran = 0, waited = 0; file >> ran >> waited) sum = sum.value_or(0) + 1e-9 * waited;
  }
  return sum;
#else
  return std::nullopt;
#endif
}

}  // namespace athanor::os
