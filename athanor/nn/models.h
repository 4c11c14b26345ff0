// Models by name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "athanor/nn/module.h"

namespace athanor::nn {

/// What a model is trained for.
enum class Objective { classes, pixels, next_token, masked_tokens };

/// Makes a model from images [N, C, H, W] (input_shape is [C, H, W]) to logits [N, classes]:
///
/// - "mlp": flatten, 512, ReLU, 512, ReLU, classes (fc1, fc2, fc3);
/// - "cnn": 3x3 convolution to 32 channels, ReLU, 2x2 max-pool, the same to 64, then one dense layer
///   (conv1, conv2, fc);
/// - "resnet18", "resnet34", "resnet50": He et al. (2016), with torchvision's names of parameters
///   ("layer1.0.conv1.weight"). Images below 64 pixels get a 3x3 stem with stride 1 and no max-pool;
/// - "inception_v3": Inception3, for images from 75 pixels on;
/// - "vit-tiny": ViT with patches of 16 x 16 pixels, for images below 64 pixels of 4 x 4;
///
/// or to logits of each pixel's class, [N, classes, H, W]:
///
/// - "unet-small": UNet of 32 channels in its first stage;
///
/// or from tokens i64[N, T] (input_shape is [T]) to logits of the next token at each position,
/// [N, T, classes]:
///
/// - "gpt2-nano", "gpt2-micro", "gpt2-mini", "gpt2-small": Gpt2 of 3 layers of 48 dimensions with 3 heads,
///   4 of 128 with 4, 6 of 192 with 6, 12 of 768 with 12, for at most T tokens;
///
/// or to logits of the token at each position, [N, T, classes]:
///
/// - "bert-tiny", "bert-mini", "bert-small", "bert-medium", "bert-base": BertForMaskedLM of 2 layers of 128
///   dimensions, 4 of 256, 4 of 512, 8 of 512, 12 of 768, with a head for each 64, for at most T tokens.
///
/// A name can also be the path of a library, see is_own_model().
///
/// Initial values come from default_generator(). Throws Error(name) with the nearest match for an unknown
/// name, and Error(shape|value) if the input is too small or there are no classes.
std::unique_ptr<Module> make_model(const std::string& name, const Shape& input_shape, int64_t classes);

/// Whether a name is the path of a library with your own model (see own_model.h): it has a '/', or ends
/// with ".so". All functions here work with it.
bool is_own_model(const std::string& name);
/// A short name of a model: for a library, its file's name without folder and ending.
std::string model_title(const std::string& name);

/// Throws Error(name) for an unknown name.
Objective objective_of(const std::string& name);
/// Whether a model reads tokens, not images.
bool is_language_model(const std::string& name);
/// The input to plan a model for if there is no data: an image ({1, 28, 28} or a usual size of the model), or
/// the number of tokens.
Shape default_input(const std::string& name);
int64_t default_classes(const std::string& name);
/// The number of tokens that a language model sees by default.
int64_t default_context(const std::string& name);

/// "mlp", "cnn", "resnet18", ..., "bert-base"
const std::vector<std::string>& model_names();

}  // namespace athanor::nn
