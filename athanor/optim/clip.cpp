#include "athanor/optim/clip.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/reduction.h"

namespace athanor::optim {
namespace {

void check_limit(const char* what, double limit, const std::source_location& where) {
  if (!(limit > 0))
    throw Error(ErrorCode::value, fmt::format("gradients clipped to a {} of {}", what, limit),
                to_string(where), "It must be positive");
}

}  // namespace

Tensor clip_grad_norm(const std::vector<nn::Parameter>& parameters, double max_norm,
                      std::source_location where) {
  check_limit("norm", max_norm, where);
  const SourceScope scope(where);
  const NoGrad off;
  Tensor squares;
  for (const auto& parameter : parameters) {
    const Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const Tensor own = sum(square(gradient.dtype() == DType::f64 ? gradient : cast(gradient, DType::f32)));
    squares = squares.defined() ? squares + own.to(squares.device()) : own;
  }
  if (!squares.defined()) return zeros({});
  Tensor norm = sqrt(squares);
  const Tensor limit = Tensor::scalar(max_norm, norm.dtype(), norm.device());
  const Tensor factor = minimum(limit / (norm + 1e-6), 1);
  for (const auto& parameter : parameters) {
    const Tensor& gradient = parameter.grad();
    if (gradient.defined())
      parameter.set_grad(gradient * cast(factor, gradient.dtype()).to(gradient.device()));
  }
  return norm;
}

void clip_grad_value(const std::vector<nn::Parameter>& parameters, double limit, std::source_location where) {
  check_limit("value", limit, where);
  const SourceScope scope(where);
  const NoGrad off;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined()) parameter.set_grad(clamp(parameter.grad(), -limit, limit));
}

}  // namespace athanor::optim
