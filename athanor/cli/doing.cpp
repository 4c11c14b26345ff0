#include "athanor/cli/doing.h"

#include <iostream>
#include <utility>

#include "athanor/base/os/terminal.h"
#include "athanor/cli/terminal.h"

namespace athanor::cli {

Doing::Doing(std::string work, Elsewhere elsewhere)
    : work_(std::move(work)),
      terminal_(os::stderr_is_terminal() && !is_dumb_terminal()),
      each_(terminal_ || elsewhere == Elsewhere::lines) {
  constexpr double seconds_apart = 10;
  if (!terminal_ && elsewhere != Elsewhere::nothing)
    lines_.emplace(seconds_apart, [](const std::string& line) { std::cerr << line + '\n' << std::flush; });
}

void Doing::say(const std::string& what, const std::string& how_far) {
  if (!terminal_ && !lines_) return;
  constexpr double redrawn_after = 0.1;  // seconds
  const bool next = each_ && what != what_;
  if (terminal_ && !next && seconds_since(drawn_) < redrawn_after) return;
  what_ = what;
  const std::string text = work_ + ": " + what + (how_far.empty() ? "" : ", " + how_far);
  if (terminal_) {
    drawn_ = Clock::now();
    std::cerr << "\r\x1b[K  " << text << std::flush;
  } else if (next) {
    lines_->say_at_once(text);
  } else {
    lines_->say(text);
  }
}

ScopedWaitListener shown_as(Doing& doing) {
  return ScopedWaitListener(
      [&doing](const std::string& what, const std::string& how_far) { doing.say(what, how_far); });
}

Doing::~Doing() {
  if (terminal_) std::cerr << "\r\x1b[K" << std::flush;
}

}  // namespace athanor::cli
