// First values of a model from a file (--init).
#pragma once
#include <filesystem>
#include <string>

#include "athanor/nn/module.h"

namespace athanor {

/// Takes a model's parameters and buffers from a safetensors file with torchvision's names (ResNets,
/// Inception, ViT), timm's (ViT), Hugging Face's (ViT, GPT-2, BERT; see with_own_names()), or from a
/// checkpoint of Athanor. Of a table of positions that is longer than the model's, the first are taken. A
/// last layer of other classes, and a head that the file lacks (BERT), is left as it is, to be trained.
///
/// Adapters of a checkpoint are merged.
///
/// Returns what is to be said about it: "161 tensors of resnet18.safetensors; fc.weight and fc.bias are new".
/// Throws Error(io|format), and Error(name|shape) naming the file for one that does not fit; then nothing has
/// changed.
std::string load_initial_values(nn::Module& model, const std::filesystem::path& path);

}  // namespace athanor
