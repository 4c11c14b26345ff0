// Which parameters a run trains, and which of them decay.
#pragma once
#include <string>
#include <vector>

#include "athanor/optim/optimizer.h"
#include "athanor/train/config.h"

namespace athanor {

/// The parameters that `config.freeze` leaves (with adapters, only these and a last layer of classes), in
/// groups by `config.weight_decay_on`. Throws Error(usage) for a pattern that fits none, and if nothing is
/// left to train.
std::vector<optim::ParamGroup> param_groups(const TrainConfig& config,
                                            const std::vector<nn::Parameter>& parameters);

/// If `config.lora` asks for adapters, adds them to the model and says which: "adapters of rank 8 beside 12
/// layers"; otherwise returns "". Throws Error(usage) if there are no layers for them, or the rank is too
/// large.
std::string add_adapters(nn::Module& model, const TrainConfig& config);

/// Drops the gradients of other parameters, so that they are not computed.
void keep_gradients_of(const std::vector<nn::Parameter>& trained, const nn::Module& model);

}  // namespace athanor
