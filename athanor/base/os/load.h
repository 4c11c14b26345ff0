// How much other programs slow this process down.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace athanor::os {

/// Seconds that the living threads of this process have been ready to run but waited for a core, all
/// together. None if the system does not say.
std::optional<double> waited_for_cores();

/// The same of one of them, by its thread_id().
std::optional<double> waited_for_cores(int64_t thread);

/// Time in which a process may be silent, as if it had its cores to itself: time that its threads wait for
/// cores does not count, except a tenth, so that what hangs is found on a busy machine too.
class FairTime {
 public:
  /// `process`: its number; 0 for this one.
  explicit FairTime(int64_t process = 0);
  /// How much of these seconds, which have passed since the last call or since this began, counts.
  double of(double seconds);

 private:
  std::string threads_;
  double waited_;
};

/// Seconds that cores have worked since the system began.
struct CoreTime {
  double all = 0;  // of the cores that this process may use, for whatever program
  double own = 0;  // for this process
};
/// Programs with a lower priority than this process do not count: they leave it the cores. What other virtual
/// machines take of the cores counts. Exact to 0.01 s a core. std::nullopt if the system does not say.
std::optional<CoreTime> core_time();

/// The system's number of the calling thread; 0 if it has none.
int64_t thread_id();

}  // namespace athanor::os
