// Writes the kernels of grouped_matmul and its gradient by the matrices, where the tile engine does not
// serve: products of groups of rows, in one launch. Group e has the rows from ends[e - 1], or 0, up to
// ends[e]. A group of work-items computes a tile of the result, by FMA, from steps of both matrices in local
// memory.
#pragma once
#include <string>
#include <string_view>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/groups_of_rows.h"

namespace athanor::gpu {

struct GroupedProblem {
  bool gradient;
  DType dtype;
  int64_t rows, inner, groups, columns;
  Ints x, other;  // strides
  int64_t ends;   // stride
};

/// A tile of a work-group, whose items multiply by FMA.
struct GroupedPoint {
  int64_t rows, vectors, width, group_x, group_y, k_step;
  int64_t tile_m() const { return rows * group_y; }
  int64_t tile_n() const { return vectors * width * group_x; }
  int64_t items() const { return group_x * group_y; }
  int64_t pitch() const { return tile_m() + (items() > 1 ? 4 : 0); }
};

/// An item has rows x vectors vectors of the result in registers.
class GroupedKernel {
 public:
  GroupedKernel(const GroupedProblem& problem, const GroupedPoint& point);
  std::string text();

 private:
  /// A matrix as a kernel reads it: m or n, and k.
  struct Operand {
    std::string_view name, outer;  // "a", "m"
    std::string end;               // of m or n
    int64_t tile, pitch;           // pitch: of a step along k in local memory
    int64_t outer_stride, k_stride;
    bool along_k;  // neighbouring items read neighbouring k
  };

  // Which product and tile a group of work-items has.
  void begin();
  void find_group();

  // The walk along k, and the sums (grouped_fma.cpp).
  std::string element_type() const { return p_.dtype == DType::f64 ? "f64" : "f32"; }
  std::string vector_type() const;
  std::string first_row() const;
  std::string column() const;
  std::string place(const Operand& operand) const;  // of the element at k
  void stage(const Operand& operand);
  void wait();  // a single item need not
  void multiply();
  std::string store(const std::string& column, const std::string& x) const;
  void store_sums();

  Code code_;
  const GroupedProblem& p_;
  const GroupedPoint& point_;
  GroupsOfRows groups_;
  Operand a_, b_;
  bool wide_;  // indices need 64 bits
};

}  // namespace athanor::gpu
