#include "athanor/train/param_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/nn/lora.h"

namespace athanor {
namespace {

bool is_trained_with_adapters(const nn::Parameter& one) {
  return nn::is_lora(one.name()) || nn::is_of_classes(one.name());
}

std::vector<nn::Parameter> without_frozen(const std::string& patterns,
                                          const std::vector<nn::Parameter>& parameters) {
  if (patterns.empty()) return parameters;
  std::vector<nn::Parameter> left = parameters;
  for (const std::string& item : split(patterns, ',')) {
    const std::string pattern = trim(item);
    const auto fits = [&](const nn::Parameter& parameter) {
      return matches_pattern(parameter.name(), pattern);
    };
    if (std::ranges::none_of(parameters, fits))
      throw Error(ErrorCode::usage, fmt::format("no parameter is called '{}'", pattern), "--freeze",
                  fmt::format("They are called as '{}'; * stands for any part: --freeze 'layer1.*'",
                              parameters.front().name()));
    std::erase_if(left, fits);
  }
  if (left.empty())
    throw Error(ErrorCode::usage, "all parameters are frozen, so that nothing is left to train", "--freeze",
                "Leave some out");
  return left;
}

}  // namespace

std::vector<optim::ParamGroup> param_groups(const TrainConfig& config,
                                            const std::vector<nn::Parameter>& parameters) {
  std::vector<nn::Parameter> trained = without_frozen(config.freeze, parameters);
  if (config.lora > 0) std::erase_if(trained, std::not_fn(is_trained_with_adapters));
  if (config.weight_decay_on == "all") return {{.parameters = std::move(trained)}};
  optim::ParamGroup weights, others{.parameters = {}, .weight_decay = 0};
  for (const nn::Parameter& parameter : trained)
    (parameter.shape().rank() >= 2 ? weights : others).parameters.push_back(parameter);
  std::vector<optim::ParamGroup> groups;
  for (optim::ParamGroup* group : {&weights, &others})
    if (!group->parameters.empty()) groups.push_back(std::move(*group));
  return groups;
}

std::string add_adapters(nn::Module& model, const TrainConfig& config) {
  if (config.lora == 0) return {};
  try {
    if (const int64_t layers = nn::add_lora(model, {.rank = config.lora, .alpha = config.lora_alpha}))
      return fmt::format("adapters of rank {} beside {} layers", config.lora, layers);
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, error.problem(), "--lora", error.hint());
  }
  throw Error(ErrorCode::usage, fmt::format("{} has no layers for adapters", config.model), "--lora",
              "They are for transformers: gpt2-..., bert-..., vit-tiny");
}

void keep_gradients_of(const std::vector<nn::Parameter>& trained, const nn::Module& model) {
  const std::vector<nn::Parameter> all = model.parameters();
  if (all.size() == trained.size()) return;
  for (const nn::Parameter& parameter : all)
    if (std::ranges::none_of(trained, [&](const nn::Parameter& one) { return one == parameter; }))
      parameter.take_grad();
}

}  // namespace athanor
