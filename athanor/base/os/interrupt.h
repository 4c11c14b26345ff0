// Ctrl-C as a wish to stop, not as a death.
#pragma once

namespace athanor {

/// While one lives, the first SIGINT or SIGTERM is noted instead of ending the program; a second one ends it
/// at once. One within another changes nothing.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// The signal that asked to stop since the last InterruptScope began; 0: none.
int interrupt_signal();
/// Ends the program as that signal would have, unless none came or a scope lives that will see to it.
void deliver_interrupt();
/// As if `signal` had come: stops the run that is under way at its next step.
void request_interrupt(int signal);

}  // namespace athanor
