// Ctrl-C as a request to stop.
#pragma once
#include <exception>

namespace athanor {

/// While one lives, a wish to stop is noted instead of ending the program: Ctrl-C (SIGINT), SIGTERM, a
/// terminal that is closed (SIGHUP), a pipe without a reader (SIGPIPE). A second SIGINT, SIGTERM or
/// SIGHUP ends the program at once. Hang-ups within two seconds are one, for a shell hands on what the system
/// sends too; so are SIGTERMs within 0.2 s, for timeout(1) sends two. What the program was started to ignore
/// (nohup) it goes on ignoring. One scope within another changes nothing.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// While one lives, this thread leaves no work: what was begun has changed something, and is to be finished.
class FinishScope {
 public:
  FinishScope();
  ~FinishScope();
  FinishScope(const FinishScope&) = delete;
  FinishScope& operator=(const FinishScope&) = delete;
};

/// In a process that was just made by fork(): the scopes of its parent are not its own.
void forget_interrupt_scopes();

/// The signal that asked to stop since the last InterruptScope began; 0: none.
int interrupt_signal();
/// Ends the program as that signal would have, unless none came or a scope lives that will see to it.
void deliver_interrupt();
/// As if `signal` had come: stops the run that is under way.
void request_interrupt(int signal);

/// Thrown to leave long work after a request to stop. It is not an Error, because nothing went wrong.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "it was interrupted"; }
};

/// Whether an InterruptScope lives, and no FinishScope, so that long work has to look now and then.
bool interrupts_are_held();
/// Throws Interrupted when a scope lives and somebody has asked to stop. Called where all is whole: between
/// kernels that are compiled, timed or run.
void throw_if_interrupted();

}  // namespace athanor
