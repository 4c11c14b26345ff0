// 3 x 3 convolutions of stride 1 by Winograd's algorithm, between activations with blocked channels. oneDNN
// has it for AVX-512 only.
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/winograd/forward.h"
#include "athanor/backends/cpu/winograd/weights.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/ops/conv_kind.h"

namespace athanor::cpu::winograd {
namespace {

bool fits(const KernelRequest& r, const SimpleEpilogue& epilogue, const OperandDesc& x, const OperandDesc& y,
          const OperandDesc& w) {
  const Ints ones{1, 1};
  const auto blocked = [](const OperandDesc& operand) {
    return operand.layout.block > 0 && operand.layout.block % kernels().lanes == 0;
  };
  const bool one_type =
      (x.dtype == DType::f32 || x.dtype == DType::bf16) && y.dtype == x.dtype && w.dtype == x.dtype;
  const Ints& padding = r.attrs.ints("padding");
  return one_type && blocked(x) && blocked(y) && r.compute == ComputeType::by_dtypes && w.shape[2] == 3 &&
         w.shape[3] == 3 && r.attrs.ints("stride") == ones && r.attrs.ints("dilation") == ones &&
         r.attrs.integer("groups") == 1 && std::max(padding[0], padding[1]) <= 2 && y.shape.size() > 0 &&
         (epilogue.activation == Activation::none || epilogue.activation == Activation::relu);
}

template <class K>
std::vector<Candidate> candidate(const K& kernel) {
  Candidate made = function_candidate("winograd 4x4", kernel.scratch_bytes(), kernel);
  made.fewer_products = true;
  return {std::move(made)};
}

/// T: what is stored.
template <class T>
std::vector<Candidate> kernel_of(const KernelRequest& r, const SimpleEpilogue& epilogue,
                                 const OperandDesc& from, const OperandDesc& to, const OperandDesc& w) {
  const ConvKind kind = conv_kind(*r.op);
  const bool weights = kind == ConvKind::weight_grad, gradient = kind == ConvKind::input_grad;
  const Ints& padding = r.attrs.ints("padding");
  const Ints s = weights ? contiguous_strides(w.shape) : w.strides;
  // The gradient is a convolution of the result's gradient with weights turned by 180 degrees.
  const Tiles tiles(from.shape, to.shape, from.layout.block, to.layout.block,
                    gradient ? Pair(2 - padding[0], 2 - padding[1]) : Pair(padding[0], padding[1]));
  if (weights)
    return candidate(WeightGradient<T>{tiles, {s[0], s[1], s[2], s[3]}, cpu_threads(), cpu_workers()});
  const WeightStrides strides =
      gradient ? WeightStrides{s[1], s[0], -s[2], -s[3]} : WeightStrides{s[0], s[1], s[2], s[3]};
  return candidate(Forward<T>{tiles, strides, gradient ? 2 * s[2] + 2 * s[3] : 0, cpu_threads(),
                              cpu_workers(), epilogue.bias, epilogue.activation == Activation::relu});
}

}  // namespace

static std::vector<Candidate> winograd_conv(const KernelRequest& r) {
  const bool weights = conv_kind(*r.op) == ConvKind::weight_grad;
  const OperandDesc &from = r.inputs[0], &to = weights ? r.inputs[1] : r.output(),
                    &w = weights ? r.output() : r.inputs[1];
  const SimpleEpilogue epilogue = simple_epilogue(r).value();
  if (!fits(r, epilogue, from, to, w)) return {};
  return from.dtype == DType::bf16 ? kernel_of<bf16>(r, epilogue, from, to, w)
                                   : kernel_of<float>(r, epilogue, from, to, w);
}

namespace {

[[maybe_unused]] const bool winograd_registered =
    register_kernels({.ops = conv_ops(), .candidates = winograd_conv, .serves = serves_none});

}  // namespace

}  // namespace athanor::cpu::winograd
