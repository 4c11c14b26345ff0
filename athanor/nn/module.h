// Module: what models are made of.
#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/nn/state_dict.h"
#include "athanor/nn/variable.h"

namespace athanor::nn {

/// A function of a tensor with parameters, made of smaller ones.
///
///     class Perceptron : public nn::Module {
///      public:
///       Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
///      private:
///       nn::Linear& fc1 = add("fc1", nn::Linear(784, 512));
///       nn::Linear& fc2 = add("fc2", nn::Linear(512, 10));
///     };
///
/// A module owns its children; `add` gives references to them that stay valid when the module is moved.
/// Modules can be moved and not copied. Initial values are drawn from default_generator(), in the order in
/// which layers are made: manual_seed() before that makes them reproducible.
class Module {
 public:
  virtual ~Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// What the module computes. Called by operator(); override it.
  virtual Tensor forward(const Tensor& x) = 0;
  /// Applies the module: nodes made inside carry the caller's line and the module's path, and errors name
  /// the module.
  Tensor operator()(const Operand& x);
  /// One line for people: "Conv2d(3 -> 64, 3x3, padding 1)".
  virtual std::string describe() const { return "Module"; }

  /// Of this module and all below, in order of registration, named by the path from here ("0.conv1.weight");
  /// one that is registered twice is given once.
  std::vector<std::pair<std::string, Parameter>> named_parameters() const;
  std::vector<std::pair<std::string, Buffer>> named_buffers() const;
  std::vector<Parameter> parameters() const;
  /// The number of trained elements.
  int64_t parameter_count() const;
  /// The direct children.
  const std::vector<std::pair<std::string, std::unique_ptr<Module>>>& children() const { return children_; }

  /// Switches this module and all below to training (the state at first) or evaluation: batch norm and
  /// dropout differ.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool training() const { return training_; }

  /// Empties every parameter's gradient.
  void zero_grad() const;
  /// Moves every parameter and buffer. Before an optimizer is made: its state stays where it was.
  Module& to(Device device);

  /// Parameters and buffers on the host.
  StateDict state_dict() const;
  /// Replaces parameters and buffers; numbers of another dtype are converted. Throws Error(name) for missing
  /// and unexpected names, with the nearest match, and Error(shape) naming both shapes; then nothing was
  /// changed.
  void load_state_dict(const StateDict& state) const;

 protected:
  Module() = default;

  /// Registers a child. Names are not empty, have no '.', and are taken once; throws Error(name) otherwise.
  template <std::derived_from<Module> M>
  M& add(const std::string& name, M module) {
    return add(name, std::make_unique<M>(std::move(module)));
  }
  template <std::derived_from<Module> M>
  M& add(const std::string& name, std::unique_ptr<M> module) {
    M& child = *module;
    adopt(name, std::move(module));
    return child;
  }
  /// Registers a parameter or a buffer, with its initial value or shared with another module.
  Parameter add_parameter(const std::string& name, Tensor initial) {
    return add_parameter(name, Parameter(std::move(initial)));
  }
  Parameter add_parameter(const std::string& name, Parameter parameter);
  Buffer add_buffer(const std::string& name, Tensor initial);

 private:
  void adopt(const std::string& name, std::unique_ptr<Module> child);
  void check_name(const std::string& name) const;
  void set_path(const std::string& path);

  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
  std::vector<std::pair<std::string, Parameter>> parameters_;
  std::vector<std::pair<std::string, Buffer>> buffers_;
  std::string path_;  // from the root: "" or "layer1.0."
  PartName part_;     // the same as nodes carry it: null or "layer1.0"
  bool training_ = true;
};

/// The module tree as a table: name, layer, shapes and numbers of parameters, with totals.
std::string to_string(const Module& module);

}  // namespace athanor::nn
