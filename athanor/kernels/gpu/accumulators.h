// The accumulators of a program's reductions: acc<i>, and at<i> for the index of an argmax, which carries
// values beside its index. They are arrays if an item has several lanes.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

/// Work-items of a group that share a result.
struct SharedResult {
  int64_t items;       // a power of two, because they join in halves
  std::string item;    // an item's number among them
  std::string place;   // an item's place in local memory
  int64_t apart = 1;   // between the places of two of them
  int64_t lanes = 1;   // results that each item has, as lanes of its accumulators
  int64_t places = 0;  // of a lane in local memory
  std::string nobody;  // whether a result is none: "result >= 10"; "" if all are
};

class Accumulators {
 public:
  explicit Accumulators(const LoopProgram& program)
      : reductions_(program.reductions), register_types_(register_types(program)) {}

  size_t reductions() const { return reductions_.size(); }
  const LoopReduction& reduction(size_t i) const { return reductions_[i]; }
  static bool is_argmax(const LoopReduction& r) { return r.prim == Prim::argmax; }
  /// The type that is compared or summed.
  DType value_type(const LoopReduction& r) const;
  std::string value_name(const LoopReduction& r) const;
  /// The local memory that they take for each item that shares a result.
  int64_t shared_bytes() const;

  /// Declares them, with values that change nothing.
  void declare_accumulators(Code& code, int64_t lanes) const;
  /// Declares the local memory of a group's items, or of all their lanes.
  void declare_shared(Code& code, int64_t places) const;
  /// Declares registers from r<first> on, which have the results. `lane` ends accumulators' names: "[0]", "".
  void declare_results(Code& code, int first, const std::string& lane) const;
  /// A value that changes no accumulator. For an argmax it is the lowest value: of equal values the first one
  /// wins.
  std::string neutral(const LoopReduction& r) const;
  /// Takes the larger of two (value, index). NaN is the largest value; of equal values the first one wins.
  void take_larger(Code& code, const LoopReduction& r, const std::string& acc, const std::string& at,
                   const std::string& value, const std::string& value_at) const;
  /// Joins accumulators in pairs. {0} in a name stands for the reduction's number.
  void join(Code& code, const std::string& a, const std::string& a_at, const std::string& b,
            const std::string& b_at) const;
  /// Joins the accumulators of the items that share a result, in local memory. Only the first of them
  /// continues. `lane` ends accumulators' names: "", "[0]", or "[v]" for several lanes.
  void join_items(Code& code, const SharedResult& shared, const std::string& lane) const;

 private:
  std::vector<LoopReduction> reductions_;
  std::vector<DType> register_types_;
};

}  // namespace athanor::gpu
