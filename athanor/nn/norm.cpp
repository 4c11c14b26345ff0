#include "athanor/nn/norm.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/nn/init.h"
#include "athanor/nn/running_average.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/norm.h"
#include "athanor/ops/reduction.h"

namespace athanor::nn {
namespace {

Tensor value_of(const Parameter& parameter) { return parameter.defined() ? parameter.value() : Tensor(); }

}  // namespace

BatchNorm::BatchNorm(const char* name, int rank, int64_t channels, const BatchNormOptions& options)
    : name_(name), rank_(rank), options_(options), channels_(channels) {
  if (channels < 1) throw Error(ErrorCode::value, fmt::format("{} of {} channels", name, channels));
  if (options.affine) {
    weight = add_parameter("weight", init::ones({channels}));
    bias = add_parameter("bias", init::zeros({channels}));
  }
  running_mean = add_buffer("running_mean", init::zeros({channels}));
  running_var = add_buffer("running_var", init::ones({channels}));
  num_batches_tracked = add_buffer("num_batches_tracked", Tensor::scalar(int64_t{0}, DType::i64));
}

Tensor BatchNorm::forward(const Tensor& x) {
  const bool fits = x.rank() == rank_ || (rank_ == 2 && x.rank() == 3);
  if (!fits || x.size(1) != channels_)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(x.type())), {},
                fmt::format("It takes [N, {}{}]", channels_, rank_ == 2 ? "] or [N, C, L" : ", H, W"));
  if (!training())
    return batch_norm(x, value_of(weight), value_of(bias), running_mean, running_var, options_.eps);
  const int64_t count = x.size() / channels_;
  if (count < 2)
    throw Error(ErrorCode::value, fmt::format("{} in training was given {}", describe(), to_string(x.type())),
                {}, "It needs more than one value for each channel: a larger batch, or eval()");
  gather(x);
  return batch_norm(x, value_of(weight), value_of(bias), options_.eps);
}

void BatchNorm::gather(const Tensor& x) {
  const NoGrad off;
  Ints axes{0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  const Moments batch = moments(x, axes);
  const int64_t values = x.size() / channels_;
  const double count = static_cast<double>(values);
  // Counted on the buffer's device, as part of the step: reading it would make the host wait for a GPU.
  num_batches_tracked.assign(num_batches_tracked.value() + 1);
  const Tensor share = options_.momentum ? full({}, *options_.momentum, DType::f32, x.device())
                                         : 1 / cast(num_batches_tracked, DType::f32);
  running_mean.assign(running_average(running_mean, reshape(batch.mean, {channels_}), share, 1));
  running_var.assign(
      running_average(running_var, reshape(batch.var, {channels_}), share, count / (count - 1)));
}

std::string BatchNorm::describe() const { return fmt::format("{}({})", name_, channels_); }

LayerNorm::LayerNorm(const Shape& shape, double eps, bool affine) : shape_(shape), eps_(eps) {
  if (!affine) return;
  weight = add_parameter("weight", init::ones(shape));
  bias = add_parameter("bias", init::zeros(shape));
}

Tensor LayerNorm::forward(const Tensor& x) {
  bool fits = x.rank() >= shape_.rank();
  for (int axis = 1; fits && axis <= shape_.rank(); ++axis) fits = x.shape()[-axis] == shape_[-axis];
  if (!fits)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(x.type())), {},
                fmt::format("The last axes must be {}", to_string(shape_)));
  return layer_norm(x, shape_.rank(), value_of(weight), value_of(bias), eps_);
}

std::string LayerNorm::describe() const { return fmt::format("LayerNorm({})", to_string(shape_)); }

RMSNorm::RMSNorm(int64_t features, double eps, bool affine) : features_(features), eps_(eps) {
  if (features < 1) throw Error(ErrorCode::value, fmt::format("RMSNorm of {} features", features));
  if (affine) weight = add_parameter("weight", init::ones({features}));
}

Tensor RMSNorm::forward(const Tensor& x) {
  if (x.rank() < 1 || x.size(-1) != features_)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(x.type())), {},
                fmt::format("It takes [..., {}]", features_));
  return rms_norm(x, value_of(weight), eps_);
}

std::string RMSNorm::describe() const { return fmt::format("RMSNorm({})", features_); }

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, bool affine)
    : groups_(groups), channels_(channels), eps_(eps) {
  if (groups < 1 || channels < 1 || channels % groups != 0)
    throw Error(ErrorCode::value, fmt::format("GroupNorm of {} channels in {} groups", channels, groups), {},
                "Channels must divide by the groups");
  if (!affine) return;
  weight = add_parameter("weight", init::ones({channels}));
  bias = add_parameter("bias", init::zeros({channels}));
}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, groups_, value_of(weight), value_of(bias), eps_);
}

std::string GroupNorm::describe() const {
  return fmt::format("GroupNorm({} groups of {})", groups_, channels_ / groups_);
}

}  // namespace athanor::nn
