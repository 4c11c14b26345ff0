// Writes the kernels of max_pool2d, avg_pool2d and their gradients. Each result gathers its terms, so no
// atomics are needed. Images x are [images, channels, h, w]; a window for each element of y moves over them.
#pragma once
#include <initializer_list>
#include <string>

#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

struct PoolProblem {
  bool max = false, gradient = false, padded = false, counts_padding = false;
  DType dtype = DType::f32;
  int64_t planes = 0, channels = 0;
  Ints image, out;  // height and width
  Ints kernel, stride, padding;
  Ints x, dy;                  // strides
  bool channels_last = false;  // of the result; strides tell it of the others
  /// Whether every element of the image lies in exactly one window.
  bool tiles() const {
    return !padded && stride == kernel && out[0] * kernel[0] == image[0] && out[1] * kernel[1] == image[1];
  }
  int64_t window() const { return kernel[0] * kernel[1]; }
};

/// A block of an image along an axis: its number of elements, and of the windows in which they lie.
struct PoolBlock {
  int64_t elements, windows, offset;  // rows from the first window's first to the block's first
  int64_t patch;                      // rows of all these windows
  PoolBlock(int64_t strides, int64_t kernel, int64_t stride, int64_t padding);
};

/// An item computes `run` neighbouring elements of y, `runs` times.
std::string pool_forward_kernel(const PoolProblem& problem, int64_t run, int64_t runs);
/// The same of an image's gradient: an element gathers from every window that contains it.
std::string pool_grad_kernel(const PoolProblem& problem, int64_t run, int64_t runs);
/// Either, if windows tile the image. An item takes the windows of rows x columns elements of y: one, or
/// whole rows (counted through all planes).
std::string pool_windows_kernel(const PoolProblem& problem, int64_t rows, int64_t columns);
/// Gradients where windows overlap. An item computes a block of an image. `wide`: items' numbers need 64
/// bits. `row_registers`: in which a row of the block is written at once, or 0.
std::string pool_blocks_kernel(const PoolProblem& problem, const PoolBlock& h, const PoolBlock& w, bool wide,
                               int64_t row_registers);
/// Either, of images with channels last whose vectors of 16 bytes are whole. An item has a vector of y or, of
/// a gradient, of each pixel of a block of stride x stride, which lie in the same windows.
std::string pool_channels_kernel(const PoolProblem& problem);
int64_t pool_channels_items(const PoolProblem& problem);

/// What they have in common.
class PoolKernel {
 protected:
  explicit PoolKernel(const PoolProblem& problem) : p_(problem) {}

  void begin(const char* name);
  void begin_runs(int64_t elements, int64_t run, int64_t runs);
  /// Names the place of element `first` of the result, which is [.., extents[0], extents[1]]: `plane`, `row`
  /// and `column`.
  void name_place(const Ints& extents, const char* row, const char* column);
  /// The function divisor(top, left) of the average over a window.
  void write_divisor();
  /// Loops over rows i and columns j of a window.
  void open_window(int64_t rows, int64_t columns);
  void close_window();

  // Pieces of expressions.
  static std::string sum(std::initializer_list<std::string> terms);
  static std::string scaled(const std::string& index, int64_t stride);
  std::string plane_start(const Ints& strides) const;
  std::string load(const std::string& from, const std::string& at) const;
  std::string top(const std::string& row) const;
  std::string left(const std::string& column) const;
  std::string inside(const std::string& h, const std::string& w) const;
  /// `x` if (h, w) lies in the image, else `other`.
  std::string if_inside(const std::string& h, const std::string& w, const std::string& x,
                        const std::string& other) const;
  /// Whether `value` replaces the maximum `best`: of equal values the first stays, and NaN is the largest.
  static std::string takes_max(const std::string& value, const std::string& best);
  std::string number() const;  // the type of arithmetic
  std::string type() const;    // of elements in memory

  Code code_;
  const PoolProblem& p_;
};

}  // namespace athanor::gpu
