// The machine that a command looks at.
#pragma once
#include <string>

#include "athanor/device/machine.h"

namespace athanor::cli {

/// This machine, or the one recorded in the folder that --root names. Throws Error(usage) for any other.
Machine machine_at(const std::string& root);

}  // namespace athanor::cli
