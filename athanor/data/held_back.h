// A part of a dataset that is held back from training.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "athanor/data/dataset.h"

namespace athanor {

/// Two parts of a dataset: what is left to train on, and a share of it (in (0, 1)), drawn at random by the
/// seed, at least one example. Throws Error(value) where nothing is left to train on.
std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> held_back(
    const std::shared_ptr<const Dataset>& whole, double share, uint64_t seed);

}  // namespace athanor
