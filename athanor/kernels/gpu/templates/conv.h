// What the templates of convolutions share.
#pragma once
#include <optional>
#include <string>

#include "athanor/kernels/gpu/templates/gemm.h"
#include "athanor/ops/conv_problem.h"

namespace athanor::gpu {

/// conv2d, or its gradient by the images, as a product of weights [m, taps of channels in] and what is
/// gathered from `image`, one for each group.
struct ConvData {
  const ConvProblem& conv;
  bool gradient;  // of the images
  const OperandDesc &image, &weight;
  Shape out;
  int64_t channels_in, channels_out;  // of a group
  int64_t weight_m, weight_c;         // strides of the weights
  /// Output row i takes row (i * step + first + t * tap) / divisor of the image with tap t of the kernel.
  Pair step, first, tap, divisor;

  ConvData(const KernelRequest& request, const ConvProblem& problem, bool is_gradient);
};

/// The constants of conv_gather.kernel, and its text.
std::string gather_text(const OperandDesc& image, const Shape& kernel, const Shape& out, Pair step,
                        Pair first, Pair tap, Pair divisor, Defines defines);
/// Winograd's F(outputs, 3) for kernels of 3 x 3 in steps of 1, of one group; {} where it does not apply.
std::optional<GpuCandidate> winograd_candidate(const ConvData& data, const GemmProblem& p, int64_t outputs,
                                               const GpuTraits& traits);

}  // namespace athanor::gpu
