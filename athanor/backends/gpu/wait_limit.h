// Ends the program if a device hangs: a running kernel cannot be stopped, and a driver that waits for it does
// not come back, so no error can be thrown.
#pragma once
#include <functional>

#include "athanor/base/error.h"

namespace athanor::gpu {

/// For how many seconds the host waits for a device: $ATHANOR_WAIT_LIMIT, else ten minutes, or without limit
/// for a device that is the host's processor. 0: without limit.
double wait_limit(bool on_host_processor);

/// Exists while its thread waits for a device. If that lasts longer than `seconds`, another thread ends the
/// program with the error that `tell` makes. It costs two locks.
class LimitedWait {
 public:
  using Tell = std::function<Error()>;
  LimitedWait(double seconds, Tell tell);
  ~LimitedWait();
  LimitedWait(const LimitedWait&) = delete;
  LimitedWait& operator=(const LimitedWait&) = delete;

 private:
  friend class WaitMonitor;
  double limit_, waited_ = 0;
  Tell tell_;
};

}  // namespace athanor::gpu
