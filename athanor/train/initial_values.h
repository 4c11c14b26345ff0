// First values of a model from a file (--init).
#pragma once
#include <filesystem>
#include <string>

#include "athanor/nn/module.h"

namespace athanor {

/// Takes a model's parameters and buffers from a safetensors file with torchvision's names (ResNets), Hugging
/// Face's (GPT-2), or from a checkpoint of Athanor. Prefixes ("transformer.", "module."), causal masks and a
/// last layer that is the embedding again are understood. Of a table of positions that is longer than the
/// model's, the first are taken. A last layer "fc" of other classes is left as it is, to be trained.
///
/// Returns what is to be said about it: "161 tensors of resnet18.safetensors; fc.weight and fc.bias are new".
/// Throws Error(io|format), and Error(name|shape) naming the file for one that does not fit; then nothing has
/// changed.
std::string load_initial_values(const nn::Module& model, const std::filesystem::path& path);

}  // namespace athanor
