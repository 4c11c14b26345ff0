#include "athanor/nn/state_dict.h"

#include <fmt/format.h>

#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor::nn {
namespace {

std::string quoted(const std::vector<std::string>& names) {
  constexpr size_t shown = 5;
  std::string text;
  for (size_t i = 0; i < names.size() && i < shown; ++i)
    text += fmt::format("{}'{}'", i > 0 ? ", " : "", names[i]);
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

void check_names(const StateDict& state, const std::vector<std::pair<std::string, TensorType>>& wanted,
                 const std::string& owner) {
  std::vector<std::string> missing, unexpected;
  std::map<std::string_view, const TensorType*> known;
  for (const auto& [name, type] : wanted) {
    known[name] = &type;
    if (!state.contains(name)) missing.push_back(name);
  }
  for (const auto& [name, array] : state)
    if (!known.contains(name)) unexpected.push_back(name);
  if (missing.empty() && unexpected.empty()) return;

  std::vector<std::string> problems;
  if (!missing.empty()) problems.push_back("it lacks " + quoted(missing));
  if (!unexpected.empty()) problems.push_back("it has " + quoted(unexpected) + " besides");
  std::string hint;
  if (!missing.empty() && !unexpected.empty()) {
    const std::vector<std::string_view> candidates(unexpected.begin(), unexpected.end());
    if (const std::string near = nearest(missing.front(), candidates); !near.empty())
      hint = fmt::format("Is '{}' there meant as '{}'?", near, missing.front());
  }
  if (hint.empty()) hint = "Was it saved from a model of another kind?";
  throw Error(ErrorCode::name, fmt::format("the state does not fit {}: {}", owner, join(problems, "; ")), {},
              hint);
}

}  // namespace

StateDict to_state_dict(const std::vector<std::pair<std::string, Tensor>>& values) {
  std::vector<Tensor> pending;
  for (const auto& [name, value] : values)
    if (!value.node()->value) pending.push_back(value);
  if (!pending.empty()) athanor::eval(pending);
  StateDict state;
  for (const auto& [name, value] : values) state.emplace(name, value.to_host());
  return state;
}

std::vector<Tensor> from_state_dict(const StateDict& state,
                                    const std::vector<std::pair<std::string, TensorType>>& wanted,
                                    const std::string& owner) {
  check_names(state, wanted, owner);
  for (const auto& [name, type] : wanted)
    if (const HostArray& array = state.at(name); array.shape != type.shape)
      throw Error(ErrorCode::shape,
                  fmt::format("'{}' is {} in the state, but {} expects {}", name,
                              to_string(TensorType{array.dtype, array.shape, {}}), owner, to_string(type)),
                  {}, "Was it saved from a model of another size?");
  std::vector<Tensor> values;
  for (const auto& [name, type] : wanted) {
    const HostArray& array = state.at(name);
    values.push_back(Tensor::from(
        array.dtype == type.dtype ? array : from_doubles(type.dtype, type.shape, to_doubles(array)),
        type.device));
  }
  return values;
}

}  // namespace athanor::nn
