#include "athanor/train/param_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor {
namespace {

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
  if (config.weight_decay_on == "all") return {{.parameters = std::move(trained)}};
  optim::ParamGroup weights, others{.parameters = {}, .weight_decay = 0};
  for (const nn::Parameter& parameter : trained)
    (parameter.shape().rank() >= 2 ? weights : others).parameters.push_back(parameter);
  std::vector<optim::ParamGroup> groups;
  for (optim::ParamGroup* group : {&weights, &others})
    if (!group->parameters.empty()) groups.push_back(std::move(*group));
  return groups;
}

void keep_gradients_of(const std::vector<nn::Parameter>& trained, const nn::Module& model) {
  const std::vector<nn::Parameter> all = model.parameters();
  if (all.size() == trained.size()) return;
  for (const nn::Parameter& parameter : all)
    if (std::ranges::none_of(trained, [&](const nn::Parameter& one) { return one == parameter; }))
      parameter.take_grad();
}

}  // namespace athanor
