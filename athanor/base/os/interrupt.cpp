#include "athanor/base/os/interrupt.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "athanor/base/os/signal_stack.h"

#ifndef _WIN32
#include <unistd.h>
#endif

namespace athanor {
namespace {

#ifdef _WIN32
constexpr std::array held{SIGINT, SIGTERM};
constexpr int hang_up = 0, broken_pipe = 0;  // Windows does not have them
#else
constexpr std::array held{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
constexpr int hang_up = SIGHUP, broken_pipe = SIGPIPE;
#endif
// A closed terminal sends several SIGHUPs; timeout(1) sends a SIGTERM to the program and one to its group.
constexpr int64_t one_hang_up = 2000, one_termination = 200;  // milliseconds

#ifdef _WIN32
using Handling = void (*)(int);
#else
using Handling = struct sigaction;
#endif
volatile std::sig_atomic_t noted = 0;
volatile std::sig_atomic_t asked = 0;  // the first signal that a person or the system sent
volatile int64_t asked_at = 0;         // in milliseconds
std::atomic<int> depth{0};
std::array<Handling, held.size()> before{};

/// The current time. Uses only functions that a signal handler may call.
int64_t milliseconds() {
#ifdef _WIN32
  return int64_t{1000} * std::time(nullptr);
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
#endif
}

/// Tells how to end a program that may hang. Uses write(), because a signal handler may call it.
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
  const int64_t now = milliseconds();
  const bool again = (signal == hang_up && asked == hang_up && now - asked_at <= one_hang_up) ||
                     (signal == SIGTERM && asked == SIGTERM && now - asked_at <= one_termination);
  if (asked == 0) {
    noted = signal;
    asked = signal;
    asked_at = now;
    if (signal == SIGINT) say_how_to_end_at_once();
  } else if (!again) {
    std::signal(signal, SIG_DFL);  // a second request means: do not wait
    std::raise(signal);
  }
}

/// Installs note_signal() for a signal, unless it is ignored. Returns how the signal was handled before.
Handling note(int signal) {
#ifdef _WIN32
  const Handling earlier = std::signal(signal, note_signal);
  if (earlier == SIG_IGN) std::signal(signal, SIG_IGN);
#else
  Handling earlier{}, own{};
  own.sa_handler = note_signal;
  own.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(signal, nullptr, &earlier);
  if (earlier.sa_handler != SIG_IGN) sigaction(signal, &own, nullptr);
#endif
  return earlier;
}

void restore(int signal, const Handling& earlier) {
#ifdef _WIN32
  std::signal(signal, earlier);
#else
  sigaction(signal, &earlier, nullptr);
#endif
}

}  // namespace

static thread_local int finishing = 0;

InterruptScope::InterruptScope() {
  if (depth++ > 0) return;
  noted = 0;
  asked = 0;
  os::use_signal_stack();
  for (size_t i = 0; i < held.size(); ++i) before[i] = note(held[i]);
}

InterruptScope::~InterruptScope() {
  if (--depth > 0) return;
  for (size_t i = 0; i < held.size(); ++i) restore(held[i], before[i]);
}

void forget_interrupt_scopes() {
  depth = 0;
  noted = 0;
  asked = 0;
  finishing = 0;
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
