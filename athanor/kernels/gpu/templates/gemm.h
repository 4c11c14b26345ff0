// Matrix products on GPUs: the problem, the points of its tuning space, and their launches.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

/// C = A B for `batch` matrices: A [m, k], B [k, n], C [m, n], each with any strides; then the epilogue.
struct GemmProblem {
  struct Operand {
    int buffer;
    int64_t batch, row, column;  // strides in elements
    int64_t start = 0;           // bytes into the buffer
  };
  DType dtype = DType::f32;
  int64_t batch = 0, m = 0, n = 0, k = 0;
  Operand a{}, b{}, c{};
  int bias_buffer = -1;  // none
  int64_t bias_batch = 0, bias_row = 0, bias_column = 0;
  std::string activation;
  int scratch_buffer = 0;
  size_t scratch_start = 0;  // bytes that are in use already
  /// What the matrices are, where strides cannot say it: a text that defines what gemm_strided does.
  std::string matrices = {};
  /// Whether a may be read directly: its rows at a.row from each other, a step along k at a.column.
  bool a_strided = true;
  bool b_strided = true;
  /// The most steps along k that a direct `a` may take at a time; 0: all.
  int64_t a_run = 0;
  /// The same of a direct `b`.
  int64_t b_run = 0;
  bool wide_index = false;  // offsets within `matrices` need 64 bits

  GemmProblem() = default;
  /// Of a batch_matmul. A batch that shares b, as a linear layer's does, becomes one taller matrix.
  explicit GemmProblem(const KernelRequest& request);
  /// The same as a product of the transposed matrices: C' = B' A'.
  GemmProblem transposed() const;
};

/// Where a group reads a matrix from: memory as it is, panels that a launch before has packed, or local
/// memory that the group fills.
enum class GemmSource : uint8_t { direct, packed, staged };

/// A point of the template gemm's tuning space: see gemm.kernel.
struct GemmPoint {
  GemmSource a = GemmSource::direct, b = GemmSource::direct;
  int64_t rows = 8, vectors = 2, width = 16;  // of an item
  int64_t subtiles = 1;
  int64_t group_x = 1, group_y = 1;
  int64_t k_step = 0;  // 0: all of k
  int64_t splits = 1;

  int64_t block_m() const { return rows * group_y; }
  int64_t tile_m() const { return block_m() * subtiles; }
  int64_t tile_n() const { return vectors * width * group_x; }
};

/// What all the templates take from a problem: its constants, the epilogue and the matrices.
std::string gemm_prelude(const GemmProblem& problem, bool bias, Defines defines = {});
/// Adds the parts [splits, batch, m, n] of a product whose k is split, f32, and finishes its elements.
GpuLaunch sum_launch(const GemmProblem& problem, int64_t splits, GpuLaunch::Argument parts);
/// Whether the point's direct sources fit the problem's extents and strides, and its tiles into local memory.
bool fits(const GemmProblem& problem, const GemmPoint& point, const GpuTraits& traits);
/// For f32, f16 and bf16 problems that the point fits, with k > 0.
GpuCandidate gemm_candidate(const GemmProblem& problem, const GemmPoint& point);
/// Dot products along k, contiguous or packed so; rows <= m and columns <= n.
GpuCandidate dot_candidate(const GemmProblem& problem, int64_t rows, int64_t columns, int64_t width,
                           int64_t items);
/// Any dtype, extents and strides. An item computes rows x columns elements; neighbours lie along columns.
GpuCandidate plain_gemm_candidate(const GemmProblem& problem, int64_t rows, int64_t columns, int64_t group_x,
                                  int64_t group_y);

/// The points worth timing on the device, best guess first.
std::vector<GemmPoint> gemm_points(const GemmProblem& problem, const GpuTraits& traits);

}  // namespace athanor::gpu
