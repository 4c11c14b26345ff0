// A part of a dataset that is held back from training.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "athanor/data/dataset.h"

namespace athanor {

/// Two parts of a dataset: the training part, and a share (in (0, 1)) of at least one example that is held
/// back, chosen at random by the seed. Throws Error(value) if nothing is left to train on.
std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> held_back(
    const std::shared_ptr<const Dataset>& whole, double share, uint64_t seed);

}  // namespace athanor
