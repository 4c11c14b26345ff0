// Progress on standard error, because standard output is for the report.
#pragma once
#include <optional>
#include <string>

#include "athanor/base/clock.h"
#include "athanor/base/throttle.h"
#include "athanor/kernels/waiting.h"

namespace athanor::cli {

/// On a terminal, one line that is overwritten, and removed when the work is done. Elsewhere, depending on
/// `Elsewhere`: a line for each new thing, and now and then a line with its progress; or only a line now and
/// then, so that short work prints nothing; or nothing.
class Doing {
 public:
  enum class Elsewhere { lines, now_and_then, nothing };
  /// `work`: a name for all of it, such as "measuring".
  explicit Doing(std::string work, Elsewhere elsewhere = Elsewhere::lines);
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  void say(const std::string& what, const std::string& how_far);

 private:
  std::string work_, what_;
  bool terminal_, each_;
  Clock::time_point drawn_ = Clock::now();  // on a terminal
  std::optional<Throttle> lines_;           // elsewhere
};

/// Shows the waits that a device, a compiler or the tuner reports.
ScopedWaitListener shown_as(Doing& doing);

}  // namespace athanor::cli
