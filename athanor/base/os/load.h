// How much other programs slow this process down.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace athanor::os {

/// Seconds that the living threads of this process have been ready to run but waited for a core, summed over
/// threads. None if the system does not report it. Threads that called wait_unnoticed() do not count.
std::optional<double> waited_for_cores();

/// The same for one thread, given by its thread_id().
std::optional<double> waited_for_cores(int64_t thread);

/// For a thread that uses what other programs leave of a core: says that the calling thread is one.
void wait_unnoticed();

/// Counts time for timeouts of a process as if it had its cores to itself: time that its threads wait for
/// cores does not count. At least a tenth always counts, so that a hang is found on a busy machine too.
class FairTime {
 public:
  /// `process`: its number; 0 for this one.
  explicit FairTime(int64_t process = 0);
  /// How many of `seconds`, the time since the last call or since this object was made, count.
  double of(double seconds);

 private:
  std::string threads_;
  double waited_;
};

/// Seconds that cores have worked since the system began.
struct CoreTime {
  double all = 0;  // by the cores that this process may use, for any program
  double own = 0;  // for this process
  // How long threads that called wait_unnoticed() waited for cores that other programs used.
  double unnoticed = 0;
};
/// Programs with a lower priority than this process do not count, because they yield the cores to it. Time
/// that other virtual machines take counts. Exact to 0.01 s a core. std::nullopt if the system does not
/// report it.
std::optional<CoreTime> core_time();

/// The system's number of the calling thread; 0 if it has none.
int64_t thread_id();

}  // namespace athanor::os
