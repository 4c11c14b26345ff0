// Loops that run one after the other, row by row (kernels/row_chain.h), in one launch. `items` work-items of
// a group share a row, and a group has `slots` rows at a time. In all loops an item has the same elements of
// a row, so it reads what it has written itself. Results of rows stay in registers. Sums over rows stay there
// too, from row to row. Each group stores its part of them, and a second launch joins the parts.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/loop_kernels.h"
#include "athanor/kernels/gpu/loop_vectors.h"
#include "athanor/kernels/row_chain.h"

namespace athanor::gpu {

class ChainKernel {
 public:
  ChainKernel(RowChain chain, const GpuTraits& traits);

  /// Whether the device has room for it and all its units have work.
  bool is_taken() const;
  GpuCandidate run();

 private:
  const LoopProgram& loop(size_t l) const { return chain_.loops[l]; }
  std::string_view index_type() const { return wide_ ? "i64" : "i32"; }

  // The shape (loop_chain.cpp).
  void choose_vectors();
  void choose_shape();
  int64_t turns_of_item() const;  // blocks of a row that an item has
  int64_t column_numbers() const;
  int64_t local_bytes() const;
  /// The local arrays for the reductions of the loops with a role, which the loops share: how many of each
  /// type.
  std::map<DType, int64_t> arrays(RowRole role) const;
  /// The array of a reduction: "f32_0".
  static std::string array_of(const LoopProgram& program, size_t reduction);

  // The launch that walks rows (loop_chain_rows.cpp).
  void begin_kernel(GpuLaunch& launch);
  void write_rows();
  void declare_local();
  void unfold_row();
  void write_loop(size_t l);
  void walk_columns(size_t l);
  void element(size_t l, const std::string& block, const WithElement& also);
  void finish_row(size_t l);
  void join_items(size_t l);
  void keep_results(size_t l);
  std::vector<std::string> known(size_t l) const;

  // Sums over rows (loop_chain_columns.cpp).
  void declare_columns();
  void store_columns();
  void join_columns();
  int64_t part_start(size_t l, size_t reduction) const;

  RowChain chain_;
  const GpuTraits& traits_;
  VectorRows vectors_;  // of all loops
  int64_t items_ = 1, slots_ = 1, groups_ = 1, turns_ = 1;
  bool wide_ = false, columns_ = false, ragged_ = false;
  Names index_;
  std::vector<std::string> kept_;  // for each buffer: the register of a row's result
  std::vector<DType> types_;       // of buffers
  Code code_;
  GpuCandidate result_;
};

}  // namespace athanor::gpu
