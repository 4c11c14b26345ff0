#include "athanor/cli/doing.h"

#include <iostream>
#include <utility>

#include "athanor/base/os/terminal.h"
#include "athanor/cli/terminal.h"

namespace athanor::cli {

Doing::Doing(std::string work, Elsewhere elsewhere)
    : work_(std::move(work)),
      terminal_(os::stderr_is_terminal() && !is_dumb_terminal()),
      silent_(!terminal_ && elsewhere == Elsewhere::nothing),
      each_(terminal_ || elsewhere == Elsewhere::lines) {}

void Doing::say(const std::string& what, const std::string& how_far) {
  constexpr double lines_apart = 10, redrawn_after = 0.1;  // seconds
  const bool next = each_ && what != what_;
  if (silent_ || (!next && seconds_since(said_) < (terminal_ ? redrawn_after : lines_apart))) return;
  what_ = what;
  said_ = Clock::now();
  const std::string text = work_ + ": " + what + (how_far.empty() ? "" : ", " + how_far);
  if (terminal_)
    std::cerr << "\r\x1b[K  " << text << std::flush;
  else
    std::cerr << text << '\n' << std::flush;
}

ScopedWaitListener shown_as(Doing& doing) {
  return ScopedWaitListener(
      [&doing](const std::string& what, const std::string& how_far) { doing.say(what, how_far); });
}

Doing::~Doing() {
  if (terminal_ && !silent_) std::cerr << "\r\x1b[K" << std::flush;
}

}  // namespace athanor::cli
