// Module: the building block of models.
#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/nn/state_dict.h"
#include "athanor/nn/variable.h"

namespace athanor::nn {

/// A function of a tensor, with parameters, made of smaller modules.
///
///     class Perceptron : public nn::Module {
///      public:
///       Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
///      private:
///       nn::Linear& fc1 = add("fc1", nn::Linear(784, 512));
///       nn::Linear& fc2 = add("fc2", nn::Linear(512, 10));
///     };
///
/// A module owns its children; `add` returns references to them that stay valid when the module is moved.
/// Modules can be moved but not copied. Initial values are drawn from default_generator(), in the order in
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

  /// The parameters of this module and all its descendants, in order of registration, named by the path from
  /// here ("0.conv1.weight"). A parameter that is registered twice is listed once.
  std::vector<std::pair<std::string, Parameter>> named_parameters() const;
  std::vector<std::pair<std::string, Buffer>> named_buffers() const;
  std::vector<Parameter> parameters() const;
  /// The number of trained elements.
  int64_t parameter_count() const;
  /// The direct children.
  const std::vector<std::pair<std::string, std::unique_ptr<Module>>>& children() const { return children_; }

  /// Switches this module and all its descendants to training (the initial state) or evaluation. Batch norm
  /// and dropout differ between them.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool training() const { return training_; }

  /// Clears every parameter's gradient.
  void zero_grad() const;
  /// Moves every parameter and buffer. Do this before you make an optimizer: its state does not move.
  Module& to(Device device);

  /// Parameters and buffers on the host.
  StateDict state_dict() const;
  /// Replaces parameters and buffers; converts numbers of another dtype. Throws Error(name) for missing and
  /// unexpected names, with the nearest match, and Error(shape) naming both shapes. After an error nothing
  /// has changed.
  void load_state_dict(const StateDict& state) const;

 protected:
  Module() = default;

  /// Registers a child. Its name must be unique, not empty and without '.'; throws Error(name) otherwise.
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
  /// Registers a parameter or a buffer, with an initial value or shared with another module.
  Parameter add_parameter(const std::string& name, Tensor initial) {
    return add_parameter(name, Parameter(std::move(initial)));
  }
  Parameter add_parameter(const std::string& name, Parameter parameter);
  Buffer add_buffer(const std::string& name, Tensor initial);
  void remove_parameter(const std::string& name);

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
