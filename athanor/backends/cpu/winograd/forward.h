// Convolutions by Winograd's algorithm: results, and gradients of images, which are convolutions too.
#pragma once
#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/backends/cpu/winograd/tiles.h"

namespace athanor::cpu::winograd {

/// T: what is stored.
template <class T>
struct Forward {
  Tiles tiles;
  WeightStrides strides;
  int64_t first_weight;  // the offset of the first weight
  int threads, workers;  // workers: threads, and those that help part of the time
  bool bias, relu;

  /// Buffers: the image, the weights, the bias if there is one, the result, scratch memory.
  void operator()(Buffers buffers) const;
  size_t scratch_bytes() const;

 private:
  bool by_results() const;
  void run_tiles(const T* x, const T* w, const T* added, T* y, float* scratch) const;
  void run_results(const T* x, const T* w, const T* added, T* y, float* scratch) const;
  void finish(int64_t tile, const float* from, int64_t point_stride, int64_t first, int64_t width,
              const T* added, T* y) const;
  // The number of tiles in a block and in all, rounded up to a multiple of a product's rows.
  int64_t block() const { return round_up(tiles.block_of(threads)); }
  int64_t all() const { return round_up(tiles.count); }
  static int64_t round_up(int64_t n) { return ceil_div(n, kernels().tile_rows) * kernels().tile_rows; }
};

}  // namespace athanor::cpu::winograd
