// What the tile engine computes: C = A B for matrices whose axes may lie in memory in any way, then the
// epilogue.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "athanor/kernels/gpu/templates/gemm.h"
#include "athanor/kernels/gpu/templates/tile_axis.h"
#include "athanor/kernels/gpu/templates/tile_border.h"

namespace athanor::gpu {

struct TileProblem {
  struct Matrix {
    GpuLaunch::Argument memory;
    int64_t batch = 0;  // elements from one matrix to the next
    /// `outer`: the rows of A, or the columns of B.
    TileAxis outer, k;
    int64_t alignment = OperandDesc::whole_vectors;  // of the first element, in bytes
    /// Of images without their border in memory.
    std::optional<TileBorder> border = {};
    /// If elements are computed when they are read: how, from elements of this type in `memory`.
    ResultEpilogue prologue = {};
    std::optional<DType> dtype = {};
    /// Has `memory` hold what the prologue reads.
    void read(OperandPrologue from);
  };
  struct Result {
    GpuLaunch::Argument memory;
    int64_t batch = 0;
    TileAxis row, column;
  };
  DType input = DType::f32;   // of A and B
  DType output = DType::f32;  // of C
  bool tf32 = false;          // factors are rounded to tf32
  int64_t batch = 1, m = 0, n = 0, k = 0;
  Matrix a, b;
  Result c;
  ResultEpilogue epilogue;
  /// Where the epilogue's reductions keep their parts, [reduction][result][part] in f32: how many there are
  /// in all, and which of them is this product's first.
  struct Partials {
    GpuLaunch::Argument memory;
    int64_t parts = 0, first = 0;
  };
  Partials partials;
  int scratch_buffer = 0;
  size_t scratch_start = 0;  // bytes that are already in use
  /// Groups of rows, of columns or of steps along k, which only the device knows: group e has those from
  /// ends[e - 1], or 0, up to ends[e]. Each multiplies its rows (or columns) of one matrix by a matrix of its
  /// own; or its steps, and C has a matrix for each. Rows behind the last group have no products: they are 0.
  struct Groups {
    enum class Along : uint8_t { row, column, k } along;
    GpuLaunch::Argument ends;  // i64
    int64_t stride = 1, count = 0;
  };
  std::optional<Groups> groups = {};  // then the epilogue reduces nothing

  TileProblem() = default;
  explicit TileProblem(const GemmProblem& gemm);
  /// The same as a product of the transposed matrices: C' = B' A'.
  TileProblem transposed() const;
  bool has_prologue() const { return a.dtype || b.dtype; }
  bool has_groups(Groups::Along along) const { return groups && groups->along == along; }
  /// Extents that take about as long: groups of equal length are a batch.
  TileProblem with_equal_groups() const;
};

}  // namespace athanor::gpu
