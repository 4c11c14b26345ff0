// The command that `athanor fit` advises.
#pragma once
#include <string>

#include "athanor/cli/model_step.h"
#include "athanor/train/fit.h"

namespace athanor::cli {

/// Whether these are the examples that `athanor train` takes for the model if no data is given.
bool is_of_default_data(const TrainConfig& config, const ExampleSpec& spec);

/// `athanor train` with every option that differs from its default, for the step of `point` on such examples.
/// Data that was not given but is needed is called DIR or FILE.txt. `limit`: the memory limit, for steps that
/// recompute.
std::string train_command(const ModelStepOptions& options, const ExampleSpec& spec, const FitPoint& point,
                          int64_t limit);

}  // namespace athanor::cli
