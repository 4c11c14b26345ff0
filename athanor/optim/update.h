// For optimizers: update rules as ops. One node a rule and parameter keeps a step's graph small; the rule
// itself is elementwise, so that the compiler makes one loop of a parameter's rules and lets it write where
// it reads.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "athanor/graph/op.h"

namespace athanor::optim {

/// What a rule is called and takes.
struct UpdateRule {
  std::string name, doc;
  int tensors;               // how many it takes, of one type (widened to f32 from f16 and bf16)
  int numbers;               // the last input: f32 or f64 [numbers]
  std::vector<Attrs> attrs;  // to test with
};

using TensorRule =
    std::function<Tensor(const std::vector<Tensor>& x, const std::vector<Tensor>& numbers, const Attrs&)>;
using NumberRule =
    std::function<double(const std::vector<double>& x, const std::vector<double>& numbers, const Attrs&)>;

/// Declares the op of a rule: its inputs are the tensors, then the numbers as one vector.
const Op& define_update(UpdateRule rule, TensorRule of_tensors, NumberRule of_numbers);

/// The same from a generic function of (x, numbers, attrs) that means both.
template <class F>
const Op& define_update(UpdateRule rule, F formula) {
  return define_update(std::move(rule), TensorRule(formula), NumberRule(formula));
}

}  // namespace athanor::optim
