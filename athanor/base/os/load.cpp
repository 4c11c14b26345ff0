#include "athanor/base/os/load.h"

#include <string>

#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>
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

// The threads that called wait_unnoticed(), by their names in threads_folder.
class Unnoticed {
 public:
  void add(const std::string& thread) {
    const std::scoped_lock lock(mutex_);
    threads_.insert(thread);
  }
  std::set<std::string> threads() {
    const std::scoped_lock lock(mutex_);
    return threads_;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> threads_;
};
Unnoticed& unnoticed() {
  static Unnoticed& all = *new Unnoticed;  // never destroyed: threads may begin while the program ends
  return all;
}

std::optional<double> waited_by_threads_in(const std::string& folder,
                                           const std::set<std::string>& without = {}) {
  namespace fs = std::filesystem;
  std::optional<double> sum;
  std::error_code gone;  // threads may end meanwhile
  for (fs::directory_iterator thread(folder, gone), end; !gone && thread != end; thread.increment(gone)) {
    if (without.contains(thread->path().filename().string())) continue;
    if (const auto waited = waited_in(thread->path())) sum = sum.value_or(0) + *waited;
  }
  return sum;
}

}  // namespace

std::optional<double> waited_for_cores() {
  return waited_by_threads_in(threads_folder, unnoticed().threads());
}

void wait_unnoticed() { unnoticed().add(std::to_string(thread_id())); }

std::optional<double> waited_for_cores(int64_t thread) {
  return waited_in(std::filesystem::path(threads_folder) / std::to_string(thread));
}

std::optional<CoreTime> core_time() {
  cpu_set_t mine;
  timespec own{};
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) != 0)
    return std::nullopt;
  const bool low_priority = getpriority(PRIO_PROCESS, 0) > 0;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  std::optional<CoreTime> time;
  for (std::string line; std::getline(file, line);) {
    // "cpu1 user nice system idle iowait irq softirq steal ...", in ticks; man 5 proc.
    std::istringstream words(line);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    words >> name;
    if (!name.starts_with("cpu")) break;
    if (name == "cpu" || !(words >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal))
      continue;
    const size_t core = std::stoul(name.substr(3));
    if (core >= CPU_SETSIZE || !CPU_ISSET(core, &mine)) continue;
    if (!time)
      time = CoreTime{.own = static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec)};
    time->all += (user + (low_priority ? nice : 0) + system + irq + softirq + steal) / ticks;
  }
  if (time)
    for (const std::string& thread : unnoticed().threads())
      time->unnoticed += waited_in(std::filesystem::path(threads_folder) / thread).value_or(0);
  return time;
}

FairTime::FairTime(int64_t process)
    : threads_(process == 0 ? threads_folder : "/proc/" + std::to_string(process) + "/task"),
      waited_(waited_by_threads_in(threads_).value_or(0)) {}

double FairTime::of(double seconds) {
  constexpr double least = 0.1;
  const double before = std::exchange(waited_, waited_by_threads_in(threads_).value_or(0));
  return std::clamp(seconds - (waited_ - before), least * seconds, seconds);
}

int64_t thread_id() { return syscall(SYS_gettid); }

#else

std::optional<double> waited_for_cores() { return std::nullopt; }
std::optional<double> waited_for_cores(int64_t) { return std::nullopt; }
void wait_unnoticed() {}
FairTime::FairTime(int64_t) : waited_(0) {}
double FairTime::of(double seconds) { return seconds; }
std::optional<CoreTime> core_time() { return std::nullopt; }
int64_t thread_id() { return 0; }

#endif

}  // namespace athanor::os
