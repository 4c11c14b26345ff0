// Progress on standard error, because standard output is for the report.
#pragma once
#include <optional>
#include <string>

#include "athanor/base/clock.h"
#include "athanor/base/throttle.h"
#include "athanor/kernels/waiting.h"

namespace athanor::cli {

/// On a terminal a line that is written over, and gone when the work is done; elsewhere a line for each
/// thing, and one now and then for how far that is; or only one now and then, of what lasts, so that what is
/// soon done says nothing; or nothing.
class Doing {
 public:
  enum class Elsewhere { lines, now_and_then, nothing };
  /// `work`: what all of it is, "measuring".
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

/// Shows what a device, a compiler or the tuner makes the program wait for.
ScopedWaitListener shown_as(Doing& doing);

}  // namespace athanor::cli
