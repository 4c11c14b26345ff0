#include "athanor/ops/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/ops/activations.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

void check_not_empty(const Shape& targets) {
  if (targets.size() == 0)
    throw Error(ErrorCode::shape, "the batch is empty: the mean of no losses is not defined", {},
                "Leave empty batches out");
}

// Logits [N, C, ...] and labels [N, ...]; the class axis is 1.
TensorType cross_entropy_infer(std::span<const TensorType> in, const Attrs&) {
  const Shape &logits = in[0].shape, &labels = in[1].shape;
  check_dtype(in[0], Accept::floats);
  if (in[1].dtype != DType::i64)
    throw Error(ErrorCode::dtype, fmt::format("takes labels of i64, not {}", to_string(in[1].dtype)), {},
                "Cast them first: cast(labels, DType::i64)");
  if (logits.rank() < 2 || logits.erase(1) != labels)
    throw Error(ErrorCode::shape,
                fmt::format("logits {} and labels {} do not fit", to_string(logits), to_string(labels)), {},
                "They are [N, C] and [N], or [N, C, ...] and [N, ...]");
  check_not_empty(labels);
  if (logits[1] < 1)
    throw Error(ErrorCode::shape, fmt::format("logits {} have no classes", to_string(logits)));
  return {in[0].dtype, {}, {}};
}

// The target distribution: the share of each class, [N, C, ...], and the weight of each label, [N, 1, ...],
// which is 1 / count, or 0 for ignored labels. Comparisons compute it, not scatter, so that it fuses. A label
// that is neither a class nor ignored makes all weights NaN, so that it cannot pass for a loss of 0.
struct Target {
  Tensor share, weight;
};

Target target_of(const Tensor& labels, const Tensor& logits, const Attrs& attrs) {
  const double smoothing = attrs.number("label_smoothing");
  const int64_t classes = logits.size(1);
  const Tensor label = unsqueeze(labels, 1);
  Ints class_shape(static_cast<size_t>(logits.rank()), 1);
  class_shape[1] = classes;
  Tensor share = cast(equal(label, iota(class_shape, 1, logits.device())), logits.dtype());
  if (smoothing != 0) share = share * (1 - smoothing) + smoothing / static_cast<double>(classes);
  const Tensor ignored = equal(label, attrs.integer("ignore_index"));
  const Tensor counts = cast(!ignored, logits.dtype());
  const Tensor known = ignored | (greater_equal(label, 0) & less(label, classes));
  const Tensor total = sum(where(known, counts, infinity));
  return {share, counts / (total + (total - total))};  // infinity - infinity is NaN
}

// The negative sum of the log-probabilities, weighted by the target's shares.
Tensor likelihood_loss(const Tensor& log_probabilities, const Target& target) {
  // A class without a share does not count, even if its logarithm is -infinity: 0 * -infinity would be NaN.
  const Tensor shares = where(not_equal(target.share, 0), log_probabilities * target.share, 0);
  return -sum(sum(shares, 1, true) * target.weight);
}

Tensor cross_entropy_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor logits = widened(in[0]);
  return cast(likelihood_loss(log_softmax(logits, 1), target_of(in[1], logits, attrs)), in[0].dtype());
}

std::vector<Tensor> logits_grad(const GradArgs& a) {
  const Tensor logits = widened(a.inputs[0]);
  const Target target = target_of(a.inputs[1], logits, a.attrs);
  const Tensor dx = (softmax(logits, 1) - target.share) * (target.weight * widened(a.grad));
  return {cast(dx, a.inputs[0].dtype()), Tensor()};
}

RefArray cross_entropy_reference(std::span<const RefArray> in, const Attrs& attrs) {
  const Shape& shape = in[0].shape;
  const int64_t classes = shape[1], inner = shape.size() == 0 ? 1 : shape.size() / (shape[0] * classes);
  const double smoothing = attrs.number("label_smoothing");
  double total = 0, count = 0;
  for (int64_t i = 0; i < in[1].shape.size(); ++i) {
    if (static_cast<int64_t>(in[1][i]) == attrs.integer("ignore_index")) continue;
    const int64_t first = i / inner * classes * inner + i % inner;
    double power = 0, mean = 0;
    for (int64_t c = 0; c < classes; ++c) power += std::exp(in[0][first + c * inner]);
    for (int64_t c = 0; c < classes; ++c)
      mean += (std::log(power) - in[0][first + c * inner]) / static_cast<double>(classes);
    const double own = std::log(power) - in[0][first + static_cast<int64_t>(in[1][i]) * inner];
    total += (1 - smoothing) * own + smoothing * mean;
    ++count;
  }
  return RefArray(Shape{}, total / count);
}

OpCase label_case(const Shape& logits, double smoothing, int64_t ignored) {
  return {{{logits, -5, 5}, {logits.erase(1), 0, static_cast<double>(logits[1]), DType::i64}},
          {{"label_smoothing", smoothing}, {"ignore_index", ignored}}};
}

void check_options(const LabelOptions& options) {
  if (options.label_smoothing < 0 || options.label_smoothing > 1)
    throw Error(ErrorCode::value, fmt::format("a label smoothing of {}", options.label_smoothing), {},
                "It is a share, in [0, 1]");
}

Attrs attributes(const LabelOptions& options) {
  return {{"label_smoothing", options.label_smoothing}, {"ignore_index", options.ignore_index}};
}

// If the host has the labels, a wrong label is an error here, not later on the device.
void check_known(const Operand& labels, const Shape& logits, int64_t ignored) {
  if (labels.is_number()) return;
  const Tensor& given = labels.tensor();
  if (logits.rank() < 2 || logits.erase(1) != given.shape()) return;  // apply() will report this better
  const auto known = given.known_integers();
  if (!known) return;
  const int64_t classes = logits[1], each = given.shape().size() / std::max<int64_t>(1, given.shape()[0]);
  for (size_t i = 0; i < known->size(); ++i)
    if (const int64_t label = (*known)[i]; label != ignored && (label < 0 || label >= classes))
      throw Error(
          ErrorCode::value,
          fmt::format("label {} of example {} is out of range: the logits have {} classes, from 0 to {}",
                      label, static_cast<int64_t>(i) / each, classes, classes - 1),
          {}, fmt::format("Labels of {} (ignore_index) do not count", ignored));
}

// Only the device knows labels that are computed. There each label reads an element from a table of zeros
// with one element for each class. A wrong label is then an error with this call's line.
Tensor checked(const Tensor& labels, const Shape& logits, int64_t ignored) {
  static const Op& take_along = find_op("take_along");
  const bool fits = logits.rank() >= 2 && logits.erase(1) == labels.shape() && logits.size() > 0;
  if (!fits || labels.dtype() != DType::i64) return labels;
  const Tensor table = zeros({logits[1]}, DType::i64, labels.device());
  const Tensor index = where(equal(labels, ignored), 0, labels);
  const Tensor read = apply(take_along, {table, reshape(index, {-1})}, {{"axis", int64_t{0}}});
  return labels + reshape(read, labels.shape().to_ints());
}

// The labels as i64. If they are computed, the device checks them.
Tensor labels_of(const Operand& labels, const Shape& logits, int64_t ignored) {
  const Tensor given = as_tensor(labels);
  const Tensor value = is_int(given.dtype()) ? cast(given, DType::i64) : given;
  return given.node()->op->prim == Prim::input ? value : checked(value, logits, ignored);
}

// x and target as floats of the same shape; they do not broadcast.
std::pair<Tensor, Tensor> alike(const Operand& x, const Operand& target) {
  const Tensor value = as_float(x), wanted = cast(as_tensor(target), value.dtype());
  if (value.shape() != wanted.shape())
    throw Error(ErrorCode::shape, "the target's shape differs", {}, "Broadcast or reshape it to fit");
  check_not_empty(wanted.shape());
  return {value, wanted};
}

}  // namespace

ATHANOR_OPS(loss) {
  define_op(
      {.name = "cross_entropy",
       .doc = "the mean of -log(softmax(logits)[label]): logits [N, C, ...], labels i64 [N, ...]",
       .arity = 2,
       .infer = cross_entropy_infer,
       .grad = logits_grad,
       .decompose = cross_entropy_decompose,
       .reference = cross_entropy_reference,
       .cases = {label_case({17, 10}, 0, -100), label_case({5, 3}, 0.1, -100), label_case({13, 7}, 0, 3),
                 label_case({3, 5, 2, 3}, 0.2, 0), label_case({1, 3}, 0, -100)},
       .flops = [](std::span<const TensorType> in, const auto&,
                   const auto&) { return 6 * in[0].shape.size(); },
       .tolerance = 4,
       .cast_policy = CastPolicy::deny});
}

Tensor cross_entropy(Operand logits, Operand labels, const LabelOptions& options) {
  static const Op& op = find_op("cross_entropy");
  return in_call(
      "cross_entropy",
      [&] {
        check_options(options);
        const Shape shape = as_tensor(logits).shape();
        check_known(labels, shape, options.ignore_index);
        return apply(op, {logits, labels_of(labels, shape, options.ignore_index)}, attributes(options));
      },
      logits, labels);
}

Tensor nll_loss(Operand log_probabilities, Operand labels, const LabelOptions& options) {
  return in_call(
      "nll_loss",
      [&] {
        const Autocast exact(Precision::f32);
        check_options(options);
        const Tensor value = as_tensor(log_probabilities), wide = widened(value);
        check_known(labels, value.shape(), options.ignore_index);
        const Tensor label = labels_of(labels, value.shape(), options.ignore_index);
        const std::array types = {value.type(), label.type()};
        cross_entropy_infer(types, {});
        return cast(likelihood_loss(wide, target_of(label, wide, attributes(options))), value.dtype());
      },
      log_probabilities, labels);
}

Tensor mse_loss(Operand x, Operand target) {
  return in_call(
      "mse_loss",
      [&] {
        const Autocast exact(Precision::f32);
        const auto [value, wanted] = alike(x, target);
        return mean(square(value - wanted));
      },
      x, target);
}

Tensor l1_loss(Operand x, Operand target) {
  return in_call(
      "l1_loss",
      [&] {
        const Autocast exact(Precision::f32);
        const auto [value, wanted] = alike(x, target);
        return mean(abs(value - wanted));
      },
      x, target);
}

Tensor binary_cross_entropy_with_logits(Operand x, Operand target) {
  return in_call(
      "binary_cross_entropy_with_logits",
      [&] {
        const Autocast exact(Precision::f32);
        const auto [value, wanted] = alike(x, target);
        return mean(softplus(value) - value * wanted);
      },
      x, target);
}

}  // namespace athanor
