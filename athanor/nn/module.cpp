#include "athanor/nn/module.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/nn/state_dict.h"

namespace athanor::nn {
namespace {

// Calls visit(path, module) for a module and all its descendants, in order of registration.
template <class Visit>
void walk(const Module& module, const std::string& path, const Visit& visit) {
  visit(path, module);
  for (const auto& [name, child] : module.children()) walk(*child, path + name + ".", visit);
}

template <class V>
void append_new(std::vector<std::pair<std::string, V>>& list, std::string name, const V& variable) {
  const auto same = [&](const auto& entry) { return entry.second == variable; };
  if (std::none_of(list.begin(), list.end(), same)) list.emplace_back(std::move(name), variable);
}

}  // namespace

Tensor Module::operator()(const Operand& x) {
  const SourceScope line(x.where());
  const PartScope part(part_ ? part_ : PartScope::current());
  if (x.is_number() || !x.defined())
    throw Error(
        ErrorCode::usage,
        fmt::format("{} was given {}", describe(), x.is_number() ? "a number" : "an undefined tensor"),
        athanor::to_string(x.where()), "It takes a tensor");
  try {
    return forward(x.tensor());
  } catch (const Error& error) {
    // the innermost module has named itself already
    if (!children_.empty() || error.problem().starts_with("in ")) throw;
    std::string name = part_ ? fmt::format("{} ({})", *part_, describe()) : describe();
    throw Error(error.code(), fmt::format("in {}: {}", name, error.problem()), error.where(), error.hint());
  }
}

std::vector<std::pair<std::string, Parameter>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Parameter>> found;
  walk(*this, "", [&](const std::string& path, const Module& module) {
    for (const auto& [name, parameter] : module.parameters_) append_new(found, path + name, parameter);
  });
  return found;
}

std::vector<std::pair<std::string, Buffer>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Buffer>> found;
  walk(*this, "", [&](const std::string& path, const Module& module) {
    for (const auto& [name, buffer] : module.buffers_) append_new(found, path + name, buffer);
  });
  return found;
}

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> result;
  for (auto& [name, parameter] : named_parameters()) result.push_back(std::move(parameter));
  return result;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.size();
  return count;
}

Module& Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
  return *this;
}

void Module::zero_grad() const {
  for (const auto& parameter : parameters()) parameter.set_grad({});
}

Module& Module::to(Device device) {
  for (const auto& [name, parameter] : named_parameters()) parameter.move_to(device);
  for (const auto& [name, buffer] : named_buffers()) buffer.move_to(device);
  return *this;
}

StateDict Module::state_dict() const {
  std::vector<std::pair<std::string, Tensor>> values;
  for (const auto& [name, parameter] : named_parameters()) values.emplace_back(name, parameter);
  for (const auto& [name, buffer] : named_buffers()) values.emplace_back(name, buffer);
  return to_state_dict(values);
}

void Module::load_state_dict(const StateDict& state) const {
  std::vector<std::pair<std::string, Variable>> wanted;
  for (const auto& [name, parameter] : named_parameters()) wanted.emplace_back(name, parameter);
  for (const auto& [name, buffer] : named_buffers()) wanted.emplace_back(name, buffer);
  std::vector<std::pair<std::string, TensorType>> types;
  for (const auto& [name, variable] : wanted) types.emplace_back(name, variable.value().type());
  const auto values = from_state_dict(state, types, "the model");
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i].second.assign(values[i]);
}

Parameter Module::add_parameter(const std::string& name, Parameter parameter) {
  check_name(name);
  parameter.set_name(path_ + name);
  parameters_.emplace_back(name, parameter);
  return parameter;
}

Buffer Module::add_buffer(const std::string& name, Tensor initial) {
  check_name(name);
  Buffer buffer(std::move(initial));
  buffer.set_name(path_ + name);
  buffers_.emplace_back(name, buffer);
  return buffer;
}

void Module::remove_parameter(const std::string& name) {
  std::erase_if(parameters_, [&](const auto& entry) { return entry.first == name; });
}

void Module::adopt(const std::string& name, std::unique_ptr<Module> child) {
  check_name(name);
  child->set_path(path_ + name + ".");
  child->train(training_);
  children_.emplace_back(name, std::move(child));
}

void Module::check_name(const std::string& name) const {
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  };
  if (name.empty() || name.find('.') != std::string::npos)
    throw Error(ErrorCode::name, fmt::format("'{}' cannot name a part of a module", name), {},
                "Names are not empty and have no '.'");
  if (taken(children_) || taken(parameters_) || taken(buffers_))
    throw Error(ErrorCode::name, fmt::format("two parts of a module are named '{}'", name));
}

void Module::set_path(const std::string& path) {
  path_ = path;
  part_ = path.empty() ? nullptr : std::make_shared<const std::string>(path.substr(0, path.size() - 1));
  for (const auto& [name, parameter] : parameters_) parameter.set_name(path_ + name);
  for (const auto& [name, buffer] : buffers_) buffer.set_name(path_ + name);
  for (const auto& [name, child] : children_) child->set_path(path_ + name + ".");
}

}  // namespace athanor::nn
