// Names of parameters in files of other libraries.
#pragma once
#include <map>
#include <string>

#include "athanor/graph/host_array.h"

namespace athanor {

/// Gives tensors the names that Athanor's models have (those of torchvision for models of pictures, of
/// Hugging Face for models of text), joins those that are parts of one (queries, keys and values), and drops
/// those that no model has: causal masks, a last layer that is the embedding again, poolers.
///
/// Understood are prefixes ("module.", "_orig_mod.", "transformer."), timm's and Hugging Face's ViT, Hugging
/// Face's BERT of any age and with or without a head.
std::map<std::string, HostArray> with_own_names(std::map<std::string, HostArray>&& tensors);

}  // namespace athanor
