// How OpenMP's threads wait for each other: spinning on a quiet machine, asleep on a busy one.
#pragma once

namespace athanor::cpu {

/// Decides whether the machine is busy. It counts as busy from the first busy look until ten quiet looks in
/// a row.
class BusySense {
 public:
  /// `waited`: how long all threads together waited for cores since the last look, per second. Returns
  /// whether the machine is busy.
  bool operator()(double waited);

 private:
  bool busy_ = false;
  int quiet_looks_ = 0;
};

/// Call this before threads run a kernel; it costs little. About ten times a second it looks whether other
/// programs use the cores that this process needs. If so, waiting threads sleep almost at once: a thread that
/// spins keeps its core from the thread that it waits for. Does nothing if the user has set OMP_WAIT_POLICY
/// or GOMP_SPINCOUNT, or if OpenMP is not GCC's.
void adapt_waiting();

}  // namespace athanor::cpu
