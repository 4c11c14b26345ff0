// Threads, as the system schedules them.
#pragma once

namespace athanor::os {

/// Gives the calling thread, and threads that it starts, the lowest priority: they get a core only if other
/// threads leave one free.
void yield_to_others();

}  // namespace athanor::os
