// The common part of the libraries of convolutions that take the place of cuDNN and MIOpen.
#pragma once
#include <array>

#include "fake_gpu.h"

namespace fake {

struct Tensor {
  int type = -1;  // as in cudaDataType
  std::array<int64_t, 4> extents{}, strides{};
  bool is_right() const {
    for (int i = 0; i < 4; ++i)
      if (extents[i] <= 0 || strides[i] <= 0) return false;
    return type >= 0;
  }
  void make_dense() {
    int64_t stride = 1;
    for (int i = 4; i-- > 0; stride *= extents[i]) strides[i] = stride;
  }
  void make_channels_last() {
    strides = {extents[1] * extents[2] * extents[3], 1, extents[1] * extents[3], extents[1]};
  }
  bool dense() const {
    Tensor other = *this;
    other.make_dense();
    return other.strides == strides;
  }
  bool channels_last() const {
    Tensor other = *this;
    other.make_channels_last();
    return other.strides == strides;
  }
  size_t bytes() const {
    int64_t last = 0;
    for (int i = 0; i < 4; ++i) last += (extents[i] - 1) * strides[i];
    return static_cast<size_t>(last + 1) * size_of_type(type);
  }
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
};

struct Convolution {
  std::array<int64_t, 2> padding{}, stride{}, dilation{};
  int64_t groups = 1;
  int compute = -1, math = -1;
  bool deterministic = false;

  /// Whether the tensors' sizes fit each other.
  bool fits(const Tensor& x, const Tensor& w, const Tensor& y) const {
    if (!x.is_right() || !w.is_right() || !y.is_right() || x.type != w.type || x.type != y.type) return false;
    if (x.extents[0] != y.extents[0] || x.extents[1] != w.extents[1] * groups ||
        w.extents[0] != y.extents[1] || w.extents[0] % groups != 0)
      return false;
    for (int i = 0; i < 2; ++i) {
      const int64_t reach = dilation[i] * (w.extents[i + 2] - 1) + 1;
      if ((x.extents[i + 2] + 2 * padding[i] - reach) / stride[i] + 1 != y.extents[i + 2]) return false;
    }
    return true;
  }

  /// Calls f(index in x, index in w, index in y) for each product.
  template <class F>
  void for_each_product(const Tensor& x, const Tensor& w, const Tensor& y, const F& f) const {
    const int64_t inner = w.extents[1], outer = w.extents[0] / groups;
    for (int64_t n = 0; n < y.extents[0]; ++n)
      for (int64_t o = 0; o < y.extents[1]; ++o)
        for (int64_t oh = 0; oh < y.extents[2]; ++oh)
          for (int64_t ow = 0; ow < y.extents[3]; ++ow)
            for (int64_t c = 0; c < inner; ++c)
              for (int64_t kh = 0; kh < w.extents[2]; ++kh)
                for (int64_t kw = 0; kw < w.extents[3]; ++kw) {
                  const int64_t h = oh * stride[0] - padding[0] + kh * dilation[0];
                  const int64_t v = ow * stride[1] - padding[1] + kw * dilation[1];
                  if (h < 0 || v < 0 || h >= x.extents[2] || v >= x.extents[3]) continue;
                  f(x.at(n, o / outer * inner + c, h, v), w.at(o, c, kh, kw), y.at(n, o, oh, ow));
                }
  }
};

enum class Direction { forward, images, weights };

/// Computes one tensor from the others.
inline void convolve(const Convolution& conv, Direction direction, const Tensor& x, const Tensor& w,
                     const Tensor& y, std::byte* x_data, std::byte* w_data, std::byte* y_data, bool tf32) {
  const Tensor& result = direction == Direction::forward ? y : direction == Direction::images ? x : w;
  std::byte* to = direction == Direction::forward ? y_data : direction == Direction::images ? x_data : w_data;
  std::vector<double> sums(result.bytes() / size_of_type(result.type));
  conv.for_each_product(x, w, y, [&](int64_t i, int64_t j, int64_t k) {
    const auto at = [&](const std::byte* data, int64_t place) {
      return rounded(load(data, x.type, place), tf32);
    };
    if (direction == Direction::forward) sums[k] += at(x_data, i) * at(w_data, j);
    if (direction == Direction::images) sums[i] += at(y_data, k) * at(w_data, j);
    if (direction == Direction::weights) sums[j] += at(x_data, i) * at(y_data, k);
  });
  // Writes only elements: the bytes between them may belong to others.
  for (int64_t a = 0; a < result.extents[0]; ++a)
    for (int64_t b = 0; b < result.extents[1]; ++b)
      for (int64_t c = 0; c < result.extents[2]; ++c)
        for (int64_t d = 0; d < result.extents[3]; ++d)
          store(to, result.type, result.at(a, b, c, d), sums[static_cast<size_t>(result.at(a, b, c, d))]);
}

/// Runs a convolution, with scratch memory that it may overwrite.
inline int run_convolution(const char* driver, void* stream, const Convolution& conv, Direction direction,
                           const Tensor& x, const void* x_data, const Tensor& w, const void* w_data,
                           const Tensor& y, const void* y_data, void* workspace, size_t workspace_bytes,
                           bool tf32) {
  std::vector<Part> parts = {{x_data, x.bytes(), direction == Direction::images},
                             {w_data, w.bytes(), direction == Direction::weights},
                             {y_data, y.bytes(), direction == Direction::forward}};
  if (workspace_bytes > 0) parts.push_back({workspace, workspace_bytes, true});
  return on_stream(driver, stream, parts, [=](const std::vector<std::byte*>& memory) {
    if (workspace_bytes > 0) std::memset(memory[3], 0xff, workspace_bytes);
    convolve(conv, direction, x, w, y, memory[0], memory[1], memory[2], tf32);
  });
}

}  // namespace fake
