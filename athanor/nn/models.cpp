#include "athanor/nn/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/nn/bert.h"
#include "athanor/nn/conv.h"
#include "athanor/nn/gpt2.h"
#include "athanor/nn/inception.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/own_model.h"
#include "athanor/nn/resnet.h"
#include "athanor/nn/unet.h"
#include "athanor/nn/vit.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/pool.h"

namespace athanor::nn {
namespace {

class Mlp : public Module {
 public:
  Mlp(int64_t inputs, int64_t classes)
      : fc1_(add("fc1", Linear(inputs, 512))),
        fc2_(add("fc2", Linear(512, 512))),
        fc3_(add("fc3", Linear(512, classes))) {}
  Tensor forward(const Tensor& x) override { return fc3_(relu(fc2_(relu(fc1_(flatten(x, 1)))))); }
  std::string describe() const override { return "MLP"; }

 private:
  Linear &fc1_, &fc2_, &fc3_;
};

class Cnn : public Module {
 public:
  Cnn(const Shape& input, int64_t classes)
      : conv1_(add("conv1", Conv2d(input[0], 32, 3, {.padding = 1}))),
        conv2_(add("conv2", Conv2d(32, 64, 3, {.padding = 1}))),
        fc_(add("fc", Linear(64 * (input[1] / 4) * (input[2] / 4), classes))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = max_pool2d(relu(conv1_(x)), 2);
    return fc_(flatten(max_pool2d(relu(conv2_(y)), 2), 1));
  }
  std::string describe() const override { return "CNN"; }

 private:
  Conv2d &conv1_, &conv2_;
  Linear& fc_;
};

struct Entry {
  std::string name;
  int64_t smallest;  // height and width; 0: the inputs are tokens
  std::unique_ptr<Module> (*make)(const Shape& input, int64_t classes);
  Objective objective = Objective::classes;
};

// With the paper's stem, smaller images would be one pixel before the last stage.
constexpr int64_t small_image = 64;

template <int First, int Second, int Third, int Fourth, bool Bottleneck>
std::unique_ptr<Module> make_resnet(const Shape& input, int64_t classes) {
  return std::make_unique<ResNet>(input[0], classes,
                                  ResNetOptions{.blocks = {First, Second, Third, Fourth},
                                                .bottleneck = Bottleneck,
                                                .small_stem = std::min(input[1], input[2]) < small_image});
}

template <int64_t Layers, int64_t Dimensions, int64_t Heads>
std::unique_ptr<Module> make_gpt2(const Shape& input, int64_t classes) {
  return std::make_unique<Gpt2>(Gpt2Options{.vocabulary = classes,
                                            .positions = input[0],
                                            .layers = Layers,
                                            .dimensions = Dimensions,
                                            .heads = Heads});
}

template <int64_t Layers, int64_t Dimensions>
std::unique_ptr<Module> make_bert(const Shape& input, int64_t classes) {
  constexpr int64_t head = 64;  // dimensions
  return std::make_unique<BertForMaskedLM>(BertOptions{.vocabulary = classes,
                                                       .positions = input[0],
                                                       .layers = Layers,
                                                       .dimensions = Dimensions,
                                                       .heads = Dimensions / head});
}

constexpr int64_t small_patch = 4;

std::unique_ptr<Module> make_vit_tiny(const Shape& input, int64_t classes) {
  const bool small = std::min(input[1], input[2]) < small_image;
  return std::make_unique<ViT>(input, classes, ViTOptions{.patch = small ? small_patch : 16});
}

const std::vector<Entry>& entries() {
  using enum Objective;
  static const std::vector<Entry> all{
      {"mlp", 1,
       [](const Shape& input, int64_t classes) -> std::unique_ptr<Module> {
         return std::make_unique<Mlp>(input.size(), classes);
       }},
      {"cnn", 4,
       [](const Shape& input, int64_t classes) -> std::unique_ptr<Module> {
         return std::make_unique<Cnn>(input, classes);
       }},
      {"resnet18", 4, make_resnet<2, 2, 2, 2, false>},
      {"resnet34", 4, make_resnet<3, 4, 6, 3, false>},
      {"resnet50", 4, make_resnet<3, 4, 6, 3, true>},
      {"inception_v3", 75,
       [](const Shape& input, int64_t classes) -> std::unique_ptr<Module> {
         return std::make_unique<Inception3>(input[0], classes);
       }},
      {"vit-tiny", small_patch, make_vit_tiny},
      {"unet-small", 1,
       [](const Shape& input, int64_t classes) -> std::unique_ptr<Module> {
         return std::make_unique<UNet>(input[0], classes);
       },
       pixels},
      {"gpt2-nano", 0, make_gpt2<3, 48, 3>, next_token},
      {"gpt2-micro", 0, make_gpt2<4, 128, 4>, next_token},
      {"gpt2-mini", 0, make_gpt2<6, 192, 6>, next_token},
      {"gpt2-small", 0, make_gpt2<12, 768, 12>, next_token},
      {"bert-tiny", 0, make_bert<2, 128>, masked_tokens},
      {"bert-mini", 0, make_bert<4, 256>, masked_tokens},
      {"bert-small", 0, make_bert<4, 512>, masked_tokens},
      {"bert-medium", 0, make_bert<8, 512>, masked_tokens},
      {"bert-base", 0, make_bert<12, 768>, masked_tokens},
  };
  return all;
}

/// The entry of a library, which is loaded at the first call.
const Entry& own_entry(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Entry> known;
  const OwnModel& own = load_own_model(name);
  const std::lock_guard lock(mutex);
  const int64_t smallest = own.objective == Objective::classes ? std::max<int64_t>(1, own.smallest) : 0;
  return known.try_emplace(name, Entry{name, smallest, own.make, own.objective}).first->second;
}

const Entry& entry_of(const std::string& name) {
  if (is_own_model(name)) return own_entry(name);
  for (const auto& entry : entries())
    if (entry.name == name) return entry;
  const std::vector<std::string_view> names(model_names().begin(), model_names().end());
  throw Error(ErrorCode::name, fmt::format("unknown model '{}'", name), {}, nearest_hint(name, names));
}

}  // namespace

std::unique_ptr<Module> make_model(const std::string& name, const Shape& input_shape, int64_t classes) {
  if (classes < 1) throw Error(ErrorCode::value, fmt::format("a model with {} classes", classes));
  const Entry& entry = entry_of(name);
  const auto make = [&] {
    auto model = entry.make(input_shape, classes);
    if (model == nullptr)
      throw Error(ErrorCode::usage, "the library made no model", name, "Its function returned nothing");
    return model;
  };
  if (entry.smallest == 0) {
    if (input_shape.rank() == 1 && input_shape.size() > 0) return make();
    throw Error(ErrorCode::shape, fmt::format("{} takes no inputs of shape {}", name, to_string(input_shape)),
                {}, "It takes tokens [T]");
  }
  if (input_shape.rank() != 3 || input_shape.size() == 0 || input_shape[1] < entry.smallest ||
      input_shape[2] < entry.smallest)
    throw Error(
        ErrorCode::shape, fmt::format("{} takes no inputs of shape {}", name, to_string(input_shape)), {},
        fmt::format("It takes images [C, H, W] of at least {0} x {0} pixels; for a table or smaller images "
                    "take mlp (--model mlp)",
                    entry.smallest));
  return make();
}

bool is_own_model(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".so");
}

std::string model_title(const std::string& name) {
  return is_own_model(name) ? std::filesystem::path(name).stem().string() : name;
}

Objective objective_of(const std::string& name) { return entry_of(name).objective; }

bool is_language_model(const std::string& name) {
  if (is_own_model(name)) return own_entry(name).smallest == 0;
  return std::ranges::any_of(entries(),
                             [&](const Entry& entry) { return entry.name == name && entry.smallest == 0; });
}

Shape default_input(const std::string& name) {
  if (is_language_model(name)) return {default_context(name)};
  if (objective_of(name) == Objective::pixels) return {3, 256, 256};
  return name == "inception_v3" ? Shape{3, 299, 299} : Shape{1, 28, 28};
}

int64_t default_classes(const std::string& name) {
  constexpr int64_t bytes = 256;
  switch (objective_of(name)) {
    case Objective::next_token:
      return bytes;
    case Objective::masked_tokens:
      return bytes + 1;  // the mask
    case Objective::pixels:
      return 2;
    case Objective::classes:
      break;
  }
  return 10;
}

int64_t default_context(const std::string& name) {
  constexpr int64_t published = 1024;  // of GPT-2
  return name == "gpt2-small" ? published : name == "gpt2-mini" ? 256 : 128;
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto& entry : entries()) result.push_back(entry.name);
    return result;
  }();
  return names;
}

}  // namespace athanor::nn
