// Fused loops with reductions. Two shapes:
//   columns  The innermost dimension is kept. An item has `lanes` neighbouring columns: on GPUs a vector's,
//            which `items` work-items of a group share.
//   rows     The innermost dimension is reduced. On GPUs, `items` work-items of a group share a row.
//            They read vectors where they can. On CPUs, one work-item does several rows, in `lanes`.
// A reduction with few results is split into `parts`, which a second launch joins.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/accumulators.h"
#include "athanor/kernels/gpu/loop_kernels.h"
#include "athanor/kernels/gpu/loop_vectors.h"

namespace athanor::gpu {

class ReductionKernels : LoopKernels, Accumulators {
 public:
  ReductionKernels(const LoopProgram& program, const GpuTraits& traits)
      : LoopKernels(program, traits), Accumulators(program) {}

  GpuCandidate run();

 private:
  // The two launches (loop_reduction.cpp).
  void choose_shape();
  void choose_row_vectors();
  /// Returns how many neighbouring items read a line of a cache.
  int64_t choose_column_vectors();
  int64_t sharing_limit() const;
  void reduce();
  void join_parts();

  // Elements, and the accumulators that take them (loop_reduction_accumulate.cpp).
  /// "[v]", behind an accumulator's name; "" for a single lane.
  std::string of_lane(const std::string& v) const { return lanes_ == 1 ? "" : "[" + v + "]"; }
  /// One element: the body's registers and stores, then the accumulators of lane v.
  void element(Code& code, const Names& index) const;
  void accumulate(Code& code, const Names& index) const;
  /// Updates the accumulators of lane v; `source_of` names the value that a reduction takes.
  void accumulate(Code& code, const Names& index, const std::function<std::string(size_t)>& source_of) const;

  /// An item's number among those that share its result.
  std::string own_item() const { return rows_ ? "LOCAL_ID(0)" : "LOCAL_ID(1)"; }

  // Loops over the reduced dimensions (loop_reduction_walk.cpp).
  std::vector<int> folded() const;
  int open_reduced(Code& code, Names& index) const;
  /// Where a part's share of `count` begins.
  std::string begin_of(const std::string& part, int64_t count) const;
  void accumulate_columns(Code& code, Names& index);
  void accumulate_rows(Code& code, Names& index);
  /// Opens a block that items without a result skip: it walks elements, and may also store some. Returns
  /// whether there are such items.
  bool open_for_results(Code& code) const;
  SharedResult shared_result() const;
  /// Lanes that the items of a group join: those of columns, each a result.
  int64_t shared_lanes() const { return rows_ ? 1 : lanes_; }
  void accumulate_chunks(Code& code, const Names& index, const std::string& from,
                         const std::string& to) const;

  // Results (loop_reduction_finish.cpp).
  /// Where partial results lie in the scratch memory: [reduction][part][result].
  struct Partial {
    int64_t values = 0, indices = -1;  // bytes
  };
  std::vector<Partial> partials();
  static std::string scratch(DType type, int64_t bytes);
  /// What the second launch does, as a loop over the parts of the one result; none if it does more.
  std::optional<GpuLaunch::Joining> joining();
  bool epilogue_reads_body() const;
  /// Stores one result from accumulators whose names end in `lane`: through the epilogue, or as a partial
  /// result.
  void finish(Code& code, const std::string& result, const std::string& lane, const Names& index);
  void epilogue(Code& code, const std::string& lane, const Names& index) const;

  // The shape:
  bool rows_ = false, in_turn_ = false;  // in_turn_: an item does all results of its group
  VectorRows vectors_;                   // used if their width is not 1
  std::vector<bool> held_;               // operands that are the same for all elements of a column
  int64_t inner_ = 1, lanes_ = 1, items_ = 1, rows_per_group_ = 1, columns_ = 1, parts_ = 1, split_size_ = 1;
};

}  // namespace athanor::gpu
