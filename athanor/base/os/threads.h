// Threads, as the system schedules them.
#pragma once

namespace athanor::os {

/// The calling thread, and those that it starts, get a core only where others leave one.
void yield_to_others();

}  // namespace athanor::os
