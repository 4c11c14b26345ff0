// Which parameters a run trains, and which of them decay.
#pragma once
#include <vector>

#include "athanor/optim/optimizer.h"
#include "athanor/train/config.h"

namespace athanor {

/// The parameters that `config.freeze` leaves, in groups by `config.weight_decay_on`. Throws Error(usage) for
/// a pattern that fits none, and where nothing is left to train.
std::vector<optim::ParamGroup> param_groups(const TrainConfig& config,
                                            const std::vector<nn::Parameter>& parameters);

/// Drops the gradients of other parameters, so that they are not computed.
void keep_gradients_of(const std::vector<nn::Parameter>& trained, const nn::Module& model);

}  // namespace athanor
