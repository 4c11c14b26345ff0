#include "athanor/base/os/load.h"

#include <string>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#endif

namespace athanor::os {

#ifdef __linux__

namespace {

const char* const threads_folder = "/proc/self/task";

// schedstat: nanoseconds that the thread ran, that it waited for a core, and how often it ran.
std::optional<double> waited_in(const std::filesystem::path& thread) {
  std::ifstream file(thread / "schedstat");
  double ran = 0, waited = 0;
  if (!(file >> ran >> waited)) return std::nullopt;
  return 1e-9 * waited;
}

}  // namespace

std::optional<double> waited_for_cores() {
  namespace fs = std::filesystem;
  std::optional<double> sum;
  std::error_code gone;  // threads end meanwhile
  for (fs::directory_iterator thread(threads_folder, gone), end; !gone && thread != end;
       thread.increment(gone))
    if (const auto waited = waited_in(thread->path())) sum = sum.value_or(0) + *waited;
  return sum;
}

std::optional<double> waited_for_cores(int64_t thread) {
  return waited_in(std::filesystem::path(threads_folder) / std::to_string(thread));
}

int64_t thread_id() { return syscall(SYS_gettid); }

#else

std::optional<double> waited_for_cores() { return std::nullopt; }
std::optional<double> waited_for_cores(int64_t) { return std::nullopt; }
int64_t thread_id() { return 0; }

#endif

}  // namespace athanor::os
