// What was detected, for people.
#pragma once
#include <string>

#include "athanor/device/detect.h"
#include "athanor/train/progress.h"

namespace athanor::cli {

/// A paragraph a device. Without `all`, what most people need; what sources disagree about always.
std::string describe(const Detection& detection, const Screen& screen, bool all);

}  // namespace athanor::cli
