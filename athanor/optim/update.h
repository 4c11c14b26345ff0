// For optimizers: update rules as ops. One node for each rule and parameter keeps a step's graph small. A
// rule is elementwise, so the compiler makes one loop of all rules of a parameter and lets it update memory
// in place.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "athanor/graph/op.h"

namespace athanor::optim {

/// The name and the arguments of a rule.
struct UpdateRule {
  std::string name, doc;
  int tensors;               // the number of tensors, all of one type (f16 and bf16 are widened to f32)
  int numbers;               // the last input: f32 or f64 [numbers]
  std::vector<Attrs> attrs;  // to test with
};

using TensorRule =
    std::function<Tensor(const std::vector<Tensor>& x, const std::vector<Tensor>& numbers, const Attrs&)>;
using NumberRule =
    std::function<double(const std::vector<double>& x, const std::vector<double>& numbers, const Attrs&)>;

/// Declares the op of a rule: its inputs are the tensors, then the numbers as one vector.
const Op& define_update(UpdateRule rule, TensorRule of_tensors, NumberRule of_numbers);

/// The same from one generic function of (x, numbers, attrs), which works on tensors and on numbers.
template <class F>
const Op& define_update(UpdateRule rule, F formula) {
  return define_update(std::move(rule), TensorRule(formula), NumberRule(formula));
}

}  // namespace athanor::optim
