// The results of detection, for people.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/detect.h"
#include "athanor/kernels/trust.h"
#include "athanor/train/progress.h"

namespace athanor::cli {

/// A paragraph for each device. Without `all`, only what most people need, and everything that sources
/// disagree about.
std::string describe(const Detection& detection, const Screen& screen, int columns, bool all);
/// Devices that Athanor refuses; "" for none.
std::string describe(const std::vector<FailedExamination>& failed, const Screen& screen, int columns);

}  // namespace athanor::cli
