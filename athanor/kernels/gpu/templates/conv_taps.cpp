// conv2d_weight_grad as one matrix product for each tap of the kernel. Nothing is gathered: with channels
// last, the pixels that a tap sees are rows of a matrix in memory, one row of the result at a time.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/points.h"

namespace athanor::gpu {

std::vector<GpuCandidate> tap_candidates(const KernelRequest& request, const ConvProblem& conv,
                                         const GpuTraits& traits) {
  const OperandDesc &image = request.inputs[0], &gradient = request.inputs[1];
  const int64_t c = conv.x[1], taps = conv.w[2] * conv.w[3];
  const int64_t rows = (conv.y[2] - 1) * conv.stride.height + (conv.w[2] - 1) * conv.dilation.height + 1;
  const int64_t columns = (conv.y[3] - 1) * conv.stride.width + (conv.w[3] - 1) * conv.dilation.width + 1;
  const int64_t copied = conv.x[0] * rows * columns * c;
  // With few channels, rows are too short. Offsets have 32 bits.
  if (conv.groups != 1 || c < 8 || conv.y.size() * conv.w.size() == 0 ||
      request.output().dtype == DType::f64 || copied >= INT32_MAX || conv.y.size() >= INT32_MAX)
    return {};

  const auto item = static_cast<int64_t>(size_of(request.output().dtype));
  const Ints& dy = gradient.strides;
  GemmProblem p;
  p.dtype = request.output().dtype;
  p.batch = taps;
  p.m = conv.y[1], p.n = c, p.k = conv.y[0] * conv.y[2] * conv.y[3];
  p.c = {2, 1, c * taps, taps};
  p.scratch_buffer = 3;
  p.a = {1, 0, dy[1], dy[3]};
  p.a_strided = true;
  p.a_run = p.b_run = conv.y[3];
  p.b = {p.scratch_buffer, 0, conv.stride.width * c, 1};
  p.scratch_start = static_cast<size_t>(ceil_div(copied * item, 256) * 256);
  // Images [N, rows, columns, C] with their padding: where the pixels begin that the first tap takes, and how
  // far those of a tap are from there.
  const bool wide = has_wide_index(p);
  const auto place = gradient_place(gradient, conv.y, wide);
  const auto pixel = [=, y = conv.y, step = conv.stride](const std::string& k) {
    const std::string number = operand(k);
    const int64_t plane = y[2] * y[3];
    const std::string row = plus(times(divided(number, plane), rows),
                                 times(divided(remainder(number, plane), y[3]), step.height));
    return strided(plus(strided(row, columns, wide), times(remainder(number, y[3]), step.width)), c, wide);
  };
  const auto tap_begin = [=, width = conv.w[3], apart = conv.dilation](const std::string& tap) {
    return times64(operand(plus(times64(times(divided(tap, width), apart.height), columns),
                                times(remainder(tap, width), apart.width))),
                   c);
  };
  const auto pixel_and_channel = [=](const std::string& k, const std::string& n) {
    return plus(pixel(k), n);
  };
  p.matrices = {.a_element = elements_at(p.dtype, "a", place),
                .b_element = elements_at(p.dtype, "b", pixel_and_channel),
                .c_place =
                    [=, stride = p.c](const std::string& row, const std::string& column) {
                      return plus(strided(row, stride.row, wide), strided(column, stride.column, wide));
                    },
                .a_place = place,
                .b_row = pixel,
                .b_begin = tap_begin,
                .a_along_k = true};

  const GpuLaunch copying = padded_copy(image, {rows, columns}, {-conv.padding.height, -conv.padding.width},
                                        {0}, {p.scratch_buffer}, traits);
  std::vector<GpuCandidate> result;
  for (const GemmPoint& point : traits.grain->points->taps(p, conv, traits)) {
    if (!fits(p, point, traits)) continue;
    GpuCandidate candidate = gemm_candidate(p, point);
    candidate.name = "by taps, " + candidate.name;
    candidate.scratch_bytes = std::max(candidate.scratch_bytes, p.scratch_start);
    candidate.launches.insert(candidate.launches.begin(), copying);
    result.push_back(std::move(candidate));
  }
  return result;
}

}  // namespace athanor::gpu
