// The sizes of a 2-D pooling, for kernels.
#pragma once
#include <algorithm>

#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// Pooling treats [N, C, H, W] as planes: N * C planes if row-major, N * C / b planes of b channels in
/// blocked layouts. In both cases a plane's elements are [H, W, b].
struct PoolShape {
  bool max;  // else average
  int block;
  int64_t planes, height, width, out_height, out_width;
  int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
  bool count_padding;  // averages divide by the whole window's size

  /// `input` and `output` are the forward operands.
  PoolShape(const KernelRequest& request, const OperandDesc& input, const OperandDesc& output) {
    const Attrs& attrs = request.attrs;
    max = request.op->name.starts_with("max");
    block = std::max(output.layout.block, 1);
    planes = output.shape[0] * output.shape[1] / block;
    height = input.shape[2], width = input.shape[3];
    out_height = output.shape[2], out_width = output.shape[3];
    const Ints &kernel = attrs.ints("kernel"), &stride = attrs.ints("stride"),
               &padding = attrs.ints("padding");
    kernel_h = kernel[0], kernel_w = kernel[1];
    stride_h = stride[0], stride_w = stride[1];
    padding_h = padding[0], padding_w = padding[1];
    count_padding = !max && attrs.flag("count_include_pad");
  }

  int64_t plane_size() const { return height * width * block; }
  int64_t out_plane_size() const { return out_height * out_width * block; }

  /// Whether every input element lies in exactly one window, as in the usual 2 x 2 pooling.
  bool tiles() const {
    return padding_h == 0 && padding_w == 0 && stride_h == kernel_h && stride_w == kernel_w &&
           out_height * kernel_h == height && out_width * kernel_w == width;
  }

  /// The part of an output element's window that lies inside the input.
  struct Window {
    int64_t top, bottom, left, right;  // rows [top, bottom), columns [left, right)
    int64_t size() const { return std::max<int64_t>(bottom - top, 0) * std::max<int64_t>(right - left, 0); }
  };
  Window window(int64_t y, int64_t x) const {
    const int64_t top = y * stride_h - padding_h, left = x * stride_w - padding_w;
    return {std::max<int64_t>(top, 0), std::min(top + kernel_h, height), std::max<int64_t>(left, 0),
            std::min(left + kernel_w, width)};
  }
  /// The divisor of an average over this window.
  int64_t divisor(const Window& window) const { return count_padding ? kernel_h * kernel_w : window.size(); }
};

inline bool serves_pool(std::span<const TensorType>, const TensorType& output) {
  return is_float(output.dtype) && output.shape.rank() == 4;
}

}  // namespace athanor::cpu
