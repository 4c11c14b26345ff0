// Softmax and losses, of floats. Losses are scalars: means over the batch.
//
// All throw Error(shape) if logits and labels, or x and target, do not fit or have no elements, and
// Error(dtype). Targets do not broadcast.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

/// exp(x) / sum(exp(x)) along an axis, without overflow.
Tensor softmax(Operand x, int axis = -1);
/// log(softmax(x))
Tensor log_softmax(Operand x, int axis = -1);

struct LabelOptions {
  double label_smoothing = 0;   // this share of the target is spread evenly over all classes
  int64_t ignore_index = -100;  // labels that do not count
};
/// The mean of -log(softmax(logits)[label]): logits [N, C] or [N, C, ...], integer labels [N] or [N, ...] in
/// [0, C). NaN if every label is ignored. A label that is neither in [0, C) nor ignored is an Error(value)
/// naming it. This call throws it if the host has the labels (they were made from numbers on the host, or are
/// on the CPU and computed); else it is thrown when the loss is read.
Tensor cross_entropy(Operand logits, Operand labels, const LabelOptions& options = {});
/// The same for log-probabilities (the result of log_softmax along axis 1).
Tensor nll_loss(Operand log_probabilities, Operand labels, const LabelOptions& options = {});
/// mean((x - target)^2)
Tensor mse_loss(Operand x, Operand target);
/// mean(|x - target|)
Tensor l1_loss(Operand x, Operand target);
/// The mean of -(t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x))), without overflow; targets in [0, 1].
Tensor binary_cross_entropy_with_logits(Operand x, Operand target);

struct CtcOptions {
  int64_t blank = 0;           // the class that means no label
  bool zero_infinity = false;  // whether a target that cannot be emitted in its time counts as a loss of 0
};
/// Connectionist temporal classification: the mean over the batch of -log P(target) / max(1, length of the
/// target). P sums over all ways to emit the target's labels in order, with blanks and repeats. Takes log-
/// probabilities [T, N, C] (of log_softmax), integer targets [N, S], and for each example the number of time
/// steps [N] and of labels [N] that count. As PyTorch's. Graves et al. (2006).
Tensor ctc_loss(Operand log_probabilities, Operand targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});

}  // namespace athanor
