// Names of parameters in files of other libraries.
#pragma once
#include <map>
#include <string>

#include "athanor/graph/host_array.h"

namespace athanor {

/// Gives tensors the names of Athanor's models (torchvision's for image models, Hugging Face's for language
/// models), joins tensors that are parts of one (queries, keys and values), and drops those that the models
/// do not have: causal masks, a last layer that repeats the embedding, poolers.
///
/// It understands prefixes ("module.", "_orig_mod.", "transformer."), timm's and Hugging Face's ViT, and
/// Hugging Face's BERT of any version, with or without a head.
std::map<std::string, HostArray> with_own_names(std::map<std::string, HostArray>&& tensors);

}  // namespace athanor
