#include "athanor/base/os/interrupt.h"

#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <string_view>

#ifndef _WIN32
#include <unistd.h>
#endif

namespace athanor {
namespace {

#ifdef _WIN32
constexpr std::array held{SIGINT, SIGTERM};
constexpr int hang_up = 0, broken_pipe = 0;  // there are none
#else
constexpr std::array held{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
constexpr int hang_up = SIGHUP, broken_pipe = SIGPIPE;
#endif
constexpr std::time_t one_hang_up = 2;  // seconds

using Handler = void (*)(int);
volatile std::sig_atomic_t noted = 0;
volatile std::sig_atomic_t asked = 0;  // the first signal that a person or the system sent
volatile std::time_t asked_at = 0;
std::atomic<int> depth{0};
std::array<Handler, held.size()> before{};

/// What may hang is told how it can be left. By write(), which a signal's handler may call.
void say_how_to_end_at_once() {
#ifndef _WIN32
  constexpr std::string_view text = "\nathanor: stopping; Ctrl-C again ends it at once\n";
  if (isatty(STDERR_FILENO) == 0) return;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
#endif
}

extern "C" void note_signal(int signal) {
  if (signal == broken_pipe) {  // each write to the pipe sends another one
    if (noted == 0) noted = signal;
    return;
  }
  const std::time_t now = std::time(nullptr);
  if (asked == 0) {
    noted = signal;
    asked = signal;
    asked_at = now;
    if (signal == SIGINT) say_how_to_end_at_once();
  } else if (signal != hang_up || asked != hang_up || now - asked_at > one_hang_up) {
    std::signal(signal, SIG_DFL);  // who asks twice does not want to wait
    std::raise(signal);
  }
}

}  // namespace

static thread_local int finishing = 0;

InterruptScope::InterruptScope() {
  if (depth++ > 0) return;
  noted = 0;
  asked = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    before[i] = std::signal(held[i], note_signal);
    if (before[i] == SIG_IGN) std::signal(held[i], SIG_IGN);
  }
}

InterruptScope::~InterruptScope() {
  if (--depth > 0) return;
  for (size_t i = 0; i < held.size(); ++i) std::signal(held[i], before[i]);
}

int interrupt_signal() { return noted; }
void deliver_interrupt() {
  if (depth == 0 && noted != 0) std::raise(noted);
}
void request_interrupt(int signal) { noted = signal; }
bool interrupts_are_held() { return depth > 0 && finishing == 0; }
void throw_if_interrupted() {
  if (interrupts_are_held() && noted != 0) throw Interrupted();
}

FinishScope::FinishScope() { ++finishing; }
FinishScope::~FinishScope() { --finishing; }

}  // namespace athanor
