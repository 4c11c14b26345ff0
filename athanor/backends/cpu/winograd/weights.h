// Gradients of the weights of convolutions by Winograd's algorithm.
#pragma once
#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/backends/cpu/winograd/tiles.h"

namespace athanor::cpu::winograd {

/// T: what is stored.
template <class T>
struct WeightGradient {
  Tiles tiles;
  WeightStrides strides;
  int threads, workers;  // workers: threads, and those that help part of the time

  /// Buffers: the image, the result's gradient, the weights' gradient, scratch memory.
  void operator()(Buffers buffers) const;
  size_t scratch_bytes() const;

 private:
  bool by_channels() const;
  int64_t most_parts() const;
  void run_tiles(const T* x, const T* dy, T* dw, float* scratch) const;
  void run_channels(const T* x, const T* dy, T* dw, float* scratch) const;
  int64_t block() const { return tiles.block_of(threads); }
};

}  // namespace athanor::cpu::winograd
