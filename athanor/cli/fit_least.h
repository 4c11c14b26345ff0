// What `athanor fit` says where nothing fits.
#pragma once
#include <cstdint>

#include "athanor/base/error.h"
#include "athanor/data/dataset.h"
#include "athanor/device/device.h"
#include "athanor/train/config.h"
#include "athanor/train/fit.h"

namespace athanor::cli {

/// Says how much the smallest step needs, and which options make that less. `planner` has the config's model;
/// `least_batch`: Fitter::least_batch().
Error nothing_fits(StepPlanner& planner, int64_t least_batch, const TrainConfig& config,
                   const ExampleSpec& spec, Device device, int64_t limit);

}  // namespace athanor::cli
