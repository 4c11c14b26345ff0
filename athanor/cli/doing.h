// What takes time now, said on standard error, for the report is the output.
#pragma once
#include <string>

#include "athanor/base/clock.h"

namespace athanor::cli {

/// On a terminal a line that is written over, and gone when the work is done; elsewhere a line for each
/// thing, and one now and then for how far that is, or nothing.
class Doing {
 public:
  enum class Elsewhere { lines, nothing };
  /// `work`: what all of it is, "measuring".
  explicit Doing(std::string work, Elsewhere elsewhere = Elsewhere::lines);
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  void say(const std::string& what, const std::string& how_far);

 private:
  std::string work_, what_;
  bool terminal_, silent_;
  Clock::time_point said_ = Clock::now();
};

}  // namespace athanor::cli
