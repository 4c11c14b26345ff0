#include "athanor/nn/sequential.h"

namespace athanor::nn {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& [name, module] : children()) y = (*module)(y);
  return y;
}

}  // namespace athanor::nn
