// Threads, as the system schedules them.
#pragma once
#include <vector>

namespace athanor::os {

/// Gives the calling thread, and threads that it starts, the lowest priority: they get a core only if other
/// threads leave one free.
void yield_to_others();

/// The core that the calling thread runs on; -1 if the system does not tell.
int current_core();

/// Lets the calling thread run on all cores that it was allowed at first, except these. Returns false if none
/// is left, or if the system has no such setting; the thread may then run where it did before.
bool stay_off_cores(const std::vector<int>& cores);

/// The time that the calling thread has had a core, in seconds.
double thread_seconds();

}  // namespace athanor::os
