// What the templates of convolutions share.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/templates/gemm.h"
#include "athanor/ops/conv_problem.h"

namespace athanor::gpu {

/// conv2d, or its gradient with respect to the images, as a matrix product for each group: weights [m, taps
/// of channels in] times elements gathered from `image`.
struct ConvData {
  const ConvProblem& conv;
  bool gradient;  // of the images
  const OperandDesc &image, &weight;
  Shape out;                          // [N, channels, rows, columns] that are computed
  Ints strides;                       // of the whole result
  int64_t channels_in, channels_out;  // of a group
  Pair taps;                          // of the kernel
  int64_t weight_m, weight_c;         // strides of the weights
  int64_t weight_first = 0;           // the element of the weights for the first tap
  Pair weight_tap;                    // and the distance between taps
  /// Output row i takes row (i * step + first + t * tap) / divisor of the image with tap t of the kernel.
  Pair step, first, tap, divisor;
  /// Output row i is row out_first + i * out_step of the result.
  Pair out_first = 0, out_step = 1;

  ConvData(const KernelRequest& request, const ConvProblem& problem, bool is_gradient);
  /// The same as parts without a divisor. Each part has every divisor-th row and column, with the taps that
  /// these use. A part without taps is 0.
  std::vector<ConvData> phases() const;
  /// Where the first of these results lies, in elements.
  int64_t first_result() const { return out_first.height * strides[2] + out_first.width * strides[3]; }
  /// The request's epilogue, for rows that are channels.
  ResultEpilogue epilogue(const KernelRequest& request) const;
};

/// The product of conv2d or conv2d_input_grad: weights [channels out, taps of channels in] times images
/// [taps of channels in, pixels]. (The gradient reads the result's channels and computes the input's.)
GemmProblem data_problem(const KernelRequest& request, const ConvData& data);
/// The product of conv2d_weight_grad: the result's gradient [channels out, pixels] times images [pixels,
/// taps of channels in].
GemmProblem weight_problem(const KernelRequest& request, const ConvProblem& conv);
/// The epilogue of conv2d_weight_grad, for rows that are channels out.
ResultEpilogue epilogue_of_weights(const KernelRequest& request, const ConvProblem& conv);
/// Where the element for channel m and pixel k of a result's gradient lies.
GemmMatrices::At gradient_place(const OperandDesc& gradient, const Shape& out, bool wide);
/// conv2d_weight_grad of one group as one product for each tap of the kernel, [channels out, pixels] with
/// [pixels, channels in]. The images are copied with channels last.
std::vector<GpuCandidate> tap_candidates(const KernelRequest& request, const ConvProblem& conv,
                                         const GpuTraits& traits);
/// Copies images [N, C, H, W], with any strides, to [N, extent.height, extent.width, C] from row and column
/// `first` on, with zeros outside the image.
GpuLaunch padded_copy(const OperandDesc& image, Pair extent, Pair first, GpuLaunch::Argument from,
                      GpuLaunch::Argument to, const GpuTraits& traits);
/// Images [N, C, H, W] as shifted_copy() writes them: with their padding, and with every step-th row and
/// column together, [N, C, step, step, lines, line].
struct ShiftedCopy {
  Pair step, low;  // low: the first row and column of the image
  int64_t lines, line;
  int64_t plane() const { return step.height * step.width * lines * line; }
};
GpuLaunch shifted_copy(const OperandDesc& image, const ShiftedCopy& copy, int buffer, GpuLaunch::Argument to,
                       const GpuTraits& traits);
/// The same as shifted_candidates() for conv2d_weight_grad, if there are few output channels; else {}.
std::vector<GpuCandidate> shifted_weight_candidates(const KernelRequest& request, const ConvProblem& conv,
                                                    const GemmProblem& p, const GpuTraits& traits);
/// Candidates without gathering, if there are few output channels or few products for each output; else {}.
/// `parts` are the products of the phases.
std::vector<GpuCandidate> shifted_candidates(const std::vector<ConvData>& phases,
                                             const std::vector<GemmProblem>& parts, const GpuTraits& traits);
/// Whether images have too many elements for tiles.
inline bool is_large(int64_t elements) { return elements >= INT32_MAX / 4; }
/// Candidates by matrix units, or FMA in their place, on devices whose kernels read memory by registers; else
/// {}. Each phase has results and taps.
std::vector<GpuCandidate> tile_candidates(const KernelRequest& request, const std::vector<ConvData>& phases,
                                          const GpuTraits& traits);
/// The same for conv2d_weight_grad.
std::vector<GpuCandidate> tile_candidates(const KernelRequest& request, const ConvProblem& conv,
                                          const GpuTraits& traits);
/// Winograd's F(outputs, 3) for 3 x 3 kernels with stride 1 and one group; {} for others.
std::optional<GpuCandidate> winograd_candidate(const KernelRequest& request, const ConvData& data,
                                               const GemmProblem& p, int64_t outputs,
                                               const GpuTraits& traits);
/// The same for conv2d_weight_grad: F(3, outputs).
std::optional<GpuCandidate> winograd_taps_candidate(const KernelRequest& request, const ConvProblem& conv,
                                                    int64_t outputs, const GpuTraits& traits);
/// Whether F(4, 3) is likely to take less time than the direct sums, for `m` and `c` channels and a result
/// (or its gradient) of this shape: it multiplies a quarter as often, but its transformed values go through
/// memory.
bool winograd_is_likely_faster(int64_t m, int64_t c, const Shape& out, DType dtype, const GpuTraits& traits);

}  // namespace athanor::gpu
