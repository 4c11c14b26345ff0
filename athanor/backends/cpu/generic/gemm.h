// Matrix multiplication by packed blocks.
#pragma once
#include <algorithm>
#include <cstring>

#include "athanor/backends/cpu/generic/gemm_micro.h"
#include "athanor/backends/cpu/generic/gemm_shape.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {

/// C = activation(A B + bias), for matrices of T.
///
/// C is cut into blocks, which threads share. A thread computes its block in the accumulation type and packs
/// the panels of A and B that it needs: it reads them once, with any strides, and then from the cache. (Goto,
/// van de Geijn: Anatomy of High-Performance Matrix Multiplication, 2008; here the innermost two levels.)
template <class T>
class Gemm {
 public:
  Gemm(const GemmShape& shape, int threads)
      : shape_(shape), threads_(threads), micro_(micro_kernel<Acc<T>>()) {
    block_m_ = std::min<int64_t>(round_up(std::max<int64_t>(shape.m, 1), micro_.rows), 240);
    block_n_ = std::min<int64_t>(round_up(std::max<int64_t>(shape.n, 1), micro_.columns), 512);
    block_k_ = std::min<int64_t>(std::max<int64_t>(shape.k, 1), 256);
    while (blocks() < 2 * threads && shape.m * shape.n * shape.k > worth_splitting) {
      if (block_n_ >= block_m_ && block_n_ > micro_.columns)
        block_n_ = round_up(block_n_ / 2, micro_.columns);
      else if (block_m_ > micro_.rows)
        block_m_ = round_up(block_m_ / 2, micro_.rows);
      else
        break;
    }
  }

  size_t scratch_bytes() const { return static_cast<size_t>(threads_) * thread_bytes(); }

  void run(const T* a, const T* b, const T* bias, T* c, void* scratch) const {
    const int64_t work = shape_.batch * shape_.m * shape_.n * std::max<int64_t>(shape_.k / 8, 1);
    parallel_for(
        blocks(), work,
        [&](int64_t begin, int64_t end, int thread) {
          auto* memory = static_cast<std::byte*>(scratch) + static_cast<size_t>(thread) * thread_bytes();
          for (int64_t block = begin; block < end; ++block) run_block(block, a, b, bias, c, memory);
        },
        threads_);
  }

 private:
  using A = Acc<T>;
  static constexpr int64_t worth_splitting = 64 * 64 * 64;

  static int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
  int64_t blocks_m() const { return (shape_.m + block_m_ - 1) / block_m_; }
  int64_t blocks_n() const { return (shape_.n + block_n_ - 1) / block_n_; }
  int64_t blocks() const { return shape_.batch * blocks_m() * blocks_n(); }
  size_t tile_bytes() const { return aligned(static_cast<size_t>(block_m_ * block_n_) * sizeof(A)); }
  size_t a_bytes() const { return aligned(static_cast<size_t>(block_m_ * block_k_) * sizeof(A)); }
  size_t b_bytes() const { return aligned(static_cast<size_t>(block_n_ * block_k_) * sizeof(A)); }
  size_t thread_bytes() const { return tile_bytes() + a_bytes() + b_bytes(); }

  // Packs `count` x `depth` elements as panels of `width`, each [depth, width], with zeros beyond count.
  static void pack(const T* from, int64_t count, int64_t stride, int64_t depth, int64_t depth_stride,
                   int64_t width, A* to) {
    for (int64_t first = 0; first < count; first += width, to += depth * width) {
      const int64_t used = std::min(width, count - first);
      const T* panel = from + first * stride;
      if (used < width) std::fill(to, to + depth * width, A{0});
      if (stride == 1) {
        for (int64_t p = 0; p < depth; ++p)
          for (int64_t i = 0; i < used; ++i) to[p * width + i] = load(panel[p * depth_stride + i]);
      } else {
        for (int64_t i = 0; i < used; ++i)
          for (int64_t p = 0; p < depth; ++p) to[p * width + i] = load(panel[i * stride + p * depth_stride]);
      }
    }
  }

  void run_block(int64_t index, const T* a, const T* b, const T* bias, T* c, std::byte* memory) const {
    const int64_t batch = index / (blocks_m() * blocks_n());
    const int64_t row = index / blocks_n() % blocks_m() * block_m_, column = index % blocks_n() * block_n_;
    const int64_t rows = std::min(block_m_, shape_.m - row), columns = std::min(block_n_, shape_.n - column);
    A* tile = reinterpret_cast<A*>(memory);
    A* packed_a = reinterpret_cast<A*>(memory + tile_bytes());
    A* packed_b = reinterpret_cast<A*>(memory + tile_bytes() + a_bytes());
    std::memset(tile, 0, tile_bytes());
    a += batch * shape_.a.batch + row * shape_.a.row;
    b += batch * shape_.b.batch + column * shape_.b.column;
    for (int64_t p = 0; p < shape_.k; p += block_k_) {
      const int64_t depth = std::min(block_k_, shape_.k - p);
      pack(a + p * shape_.a.column, rows, shape_.a.row, depth, shape_.a.column, micro_.rows, packed_a);
      pack(b + p * shape_.b.row, columns, shape_.b.column, depth, shape_.b.row, micro_.columns, packed_b);
      for (int64_t j = 0; j < columns; j += micro_.columns)
        for (int64_t i = 0; i < rows; i += micro_.rows)
          micro_.run(depth, packed_a + i * depth, packed_b + j * depth, tile + i * block_n_ + j, block_n_);
    }
    finish(tile, rows, columns, bias == nullptr ? nullptr : bias + column,
           c + (batch * shape_.m + row) * shape_.n + column);
  }

  void finish(const A* tile, int64_t rows, int64_t columns, const T* bias, T* c) const {
    for (int64_t i = 0; i < rows; ++i) {
      const A* from = tile + i * block_n_;
      T* to = c + i * shape_.n;
      if (bias == nullptr && shape_.activation == Activation::none) {
        for (int64_t j = 0; j < columns; ++j) to[j] = store<T>(from[j]);
        continue;
      }
      for (int64_t j = 0; j < columns; ++j) {
        const A sum = bias == nullptr ? from[j] : from[j] + load(bias[j]);
        to[j] = store<T>(activate(shape_.activation, sum));
      }
    }
  }

  GemmShape shape_;
  int threads_;
  MicroKernel<A> micro_;
  int64_t block_m_, block_n_, block_k_;
};

}  // namespace athanor::cpu
