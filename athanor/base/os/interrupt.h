// Ctrl-C as a request to stop.
#pragma once
#include <exception>

namespace athanor {

/// While an InterruptScope exists, a request to stop is noted instead of ending the program: Ctrl-C (SIGINT),
/// SIGTERM, a closed terminal (SIGHUP), a pipe without a reader (SIGPIPE). A second SIGINT, SIGTERM or SIGHUP
/// ends the program at once. SIGHUPs within two seconds count as one, because the shell may repeat the
/// system's signal; so do SIGTERMs within 0.2 s, because timeout(1) sends two. Signals that were ignored when
/// the program started (nohup) stay ignored. A scope inside another one changes nothing.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// While a FinishScope exists, throw_if_interrupted() does not throw on this thread. For work that has
/// already changed something and must be finished.
class FinishScope {
 public:
  FinishScope();
  ~FinishScope();
  FinishScope(const FinishScope&) = delete;
  FinishScope& operator=(const FinishScope&) = delete;
};

/// Call this in a process that was just made by fork(): the scopes of its parent do not apply to it.
void forget_interrupt_scopes();

/// The signal that asked to stop since the last InterruptScope began; 0: none.
int interrupt_signal();
/// Ends the program as that signal would have, if one came and no InterruptScope exists.
void deliver_interrupt();
/// Acts as if `signal` had come: the current run stops.
void request_interrupt(int signal);

/// Thrown to stop long work after a request to stop. It is not an Error, because nothing went wrong.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "it was interrupted"; }
};

/// Whether long work must check for requests to stop: an InterruptScope exists, and this thread has no
/// FinishScope.
bool interrupts_are_held();
/// Throws Interrupted if a stop was requested and interrupts_are_held(). Call it where nothing is half done:
/// between kernels that are compiled, timed or run.
void throw_if_interrupted();

}  // namespace athanor
