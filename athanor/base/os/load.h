// How much other programs slow this process down.
#pragma once
#include <optional>

namespace athanor::os {

/// Seconds that the living threads of this process have been ready to run but waited for a core, all
/// together. None if the system does not say.
std::optional<double> waited_for_cores();

}  // namespace athanor::os
