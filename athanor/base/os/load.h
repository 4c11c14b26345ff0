// How much other programs slow this process down.
#pragma once
#include <cstdint>
#include <optional>

namespace athanor::os {

/// Seconds that the living threads of this process have been ready to run but waited for a core, all
/// together. None if the system does not say.
std::optional<double> waited_for_cores();

/// The same of one of them, by its thread_id().
std::optional<double> waited_for_cores(int64_t thread);
/// The system's number of the calling thread; 0 if it has none.
int64_t thread_id();

}  // namespace athanor::os
