#include "athanor/ops/conv_kind.h"

#include <algorithm>

#include "athanor/base/error.h"

namespace athanor {

const std::vector<std::string>& conv_ops() {
  // In the order of ConvKind.
  static const std::vector<std::string> names{"conv2d", "conv2d_input_grad", "conv2d_weight_grad"};
  return names;
}

ConvKind conv_kind(const Op& op) {
  const auto found = std::ranges::find(conv_ops(), op.name);
  if (found == conv_ops().end()) throw Error(ErrorCode::internal, "no convolution: " + op.name);
  return static_cast<ConvKind>(found - conv_ops().begin());
}

}  // namespace athanor
