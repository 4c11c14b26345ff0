// Fused loops with reductions. Two shapes:
//   columns  The innermost dimension is kept. On GPUs, `items` work-items of a group share a column.
//            On CPUs, one work-item sums `lanes` neighbouring columns.
//   rows     The innermost dimension is reduced. On GPUs, `items` work-items of a group share a row.
//            They read vectors where they can. On CPUs, one work-item does several rows, in `lanes`.
// A reduction with few results is split into `parts`, which a second launch joins.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/loop_kernels.h"
#include "athanor/kernels/gpu/loop_vectors.h"

namespace athanor::gpu {

class ReductionKernels : LoopKernels {
 public:
  using LoopKernels::LoopKernels;

  GpuCandidate run();

 private:
  // The two launches (loop_reduction.cpp).
  void choose_shape();
  void choose_vectors();
  int64_t sharing_limit() const;
  void reduce();
  void join_parts();

  // What is reduced.
  size_t reductions() const { return program_.reductions.size(); }
  const LoopReduction& reduction(size_t i) const { return program_.reductions[i]; }
  static bool is_argmax(const LoopReduction& r) { return r.prim == Prim::argmax; }
  /// The type that is compared or summed. An argmax carries values beside its index.
  DType value_type(const LoopReduction& r) const {
    return is_argmax(r) ? types_[static_cast<size_t>(r.source)] : r.type;
  }
  /// The local memory that it takes for each item that shares a result.
  int64_t shared_bytes(const LoopReduction& r) const;
  std::string value_name(const LoopReduction& r) const { return std::string(language_name(value_type(r))); }

  // Accumulators: acc<i>, and at<i> for the index of an argmax; arrays if there are several lanes
  // (loop_reduction_accumulate.cpp).
  void declare_accumulators(Code& code) const;
  /// "[v]", behind an accumulator's name; "" for a single lane.
  std::string of_lane(const std::string& v) const { return lanes_ == 1 ? "" : "[" + v + "]"; }
  /// One element: the body's registers and stores, then the accumulators of lane v.
  void element(Code& code, const Names& index) const;
  void accumulate(Code& code, const Names& index) const;
  /// Updates the accumulators of lane v; `source_of` names the value that a reduction takes.
  void accumulate(Code& code, const Names& index, const std::function<std::string(size_t)>& source_of) const;
  /// Takes the larger of two (value, index). NaN is the largest value; of equal values the first one wins.
  void take_larger(Code& code, const LoopReduction& r, const std::string& acc, const std::string& at,
                   const std::string& value, const std::string& value_at) const;
  /// Joins accumulators in pairs. {0} in a name stands for the reduction's number.
  void join(Code& code, const std::string& a, const std::string& a_at, const std::string& b,
            const std::string& b_at) const;
  /// A value that changes no accumulator. For an argmax it is the lowest value: of equal values the first one
  /// wins.
  std::string neutral(const LoopReduction& r) const;

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
  /// Joins the accumulators of the items that share a result, in local memory. Only the first of them
  /// continues.
  void join_items(Code& code) const;
  void accumulate_chunks(Code& code, const Names& index, const std::string& from,
                         const std::string& to) const;

  // Results (loop_reduction_finish.cpp).
  /// Where partial results lie in the scratch memory: [reduction][part][result].
  struct Partial {
    int64_t values = 0, indices = -1;  // bytes
  };
  std::vector<Partial> partials();
  static std::string scratch(DType type, int64_t bytes);
  /// Stores one result from accumulators whose names end in `lane`: through the epilogue, or as a partial
  /// result.
  void finish(Code& code, const std::string& result, const std::string& lane, const Names& index);
  void epilogue(Code& code, const std::string& lane, const Names& index) const;

  // The shape:
  bool rows_ = false, in_turn_ = false;  // in_turn_: an item does all results of its group
  VectorRows vectors_;                   // used for rows if their width is not 1
  int64_t inner_ = 1, lanes_ = 1, items_ = 1, rows_per_group_ = 1, columns_ = 1, parts_ = 1, split_size_ = 1;
};

}  // namespace athanor::gpu
