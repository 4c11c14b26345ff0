// Modules one after another.
#pragma once
#include <concepts>

#include "athanor/nn/module.h"

namespace athanor::nn {

/// Sequential net(Linear(784, 512), ReLU(), Linear(512, 10)): children are named "0", "1", ...
class Sequential : public Module {
 public:
  Sequential() = default;
  template <std::derived_from<Module>... M>
    requires(sizeof...(M) > 0 && !(std::same_as<M, Sequential> && ... && (sizeof...(M) == 1)))
  explicit Sequential(M... modules) {
    (append(std::move(modules)), ...);
  }

  /// Adds a module at the end.
  template <std::derived_from<Module> M>
  M& append(M module) {
    return add(std::to_string(children().size()), std::move(module));
  }
  /// The same under a given name.
  template <std::derived_from<Module> M>
  M& append(const std::string& name, M module) {
    return add(name, std::move(module));
  }

  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Sequential"; }
};

}  // namespace athanor::nn
