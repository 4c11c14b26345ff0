// Named values to and from the host; used by modules and optimizers.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/graph/tensor.h"

namespace athanor::nn {

/// The values of a model or an optimizer, by name.
using StateDict = std::map<std::string, HostArray>;

/// Copies of the values. Values that are not computed yet are computed together.
StateDict to_state_dict(const std::vector<std::pair<std::string, Tensor>>& values);

/// New tensors for each of `wanted`, in its order, converted to its dtype. Throws Error(name) for a missing
/// or unexpected name, with the nearest match, and Error(shape) naming both shapes. `owner` names the model
/// or optimizer in errors.
std::vector<Tensor> from_state_dict(const StateDict& state,
                                    const std::vector<std::pair<std::string, TensorType>>& wanted,
                                    const std::string& owner);

}  // namespace athanor::nn
