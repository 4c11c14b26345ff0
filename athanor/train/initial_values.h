// Initial weights of a model from a file (--init).
#pragma once
#include <filesystem>
#include <string>

#include "athanor/nn/module.h"

namespace athanor {

/// Takes a model's parameters and buffers from a safetensors file with torchvision's names (ResNets,
/// Inception, ViT), timm's (ViT), Hugging Face's (ViT, GPT-2, BERT; see with_own_names()), or from a
/// checkpoint of Athanor. If a table of positions is longer than the model's, its first rows are taken. A
/// last layer with other classes, and a head that the file lacks (BERT), keep their random values.
///
/// Adapters of a checkpoint are merged.
///
/// Returns a message: "161 tensors of resnet18.safetensors; fc.weight and fc.bias are new". Throws
/// Error(io|format), and Error(name|shape) naming a file that does not fit. After an error nothing has
/// changed.
std::string load_initial_values(nn::Module& model, const std::filesystem::path& path);

}  // namespace athanor
