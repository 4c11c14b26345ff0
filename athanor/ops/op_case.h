// The cases that ops declare, with their inputs filled in. Tests and the examination of a device run them.
#pragma once
#include <string>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/graph/op.h"

namespace athanor {

struct FilledCase {
  const Op& op;
  OpCase spec;
  std::vector<HostArray> inputs;
  std::vector<bool> free;  // for each input: whether its dtype was open, so that it may have a gradient

  /// The inputs as the op's reference takes them.
  std::vector<RefArray> exact() const;
};

/// Fills the inputs with random numbers, the same in every run for one `seed`. Inputs whose dtype the case
/// leaves open are rounded to `dtype`.
FilledCase fill_case(const Op& op, const OpCase& spec, DType dtype, uint64_t seed = 0);
/// One of the op's own cases.
FilledCase fill_case(const Op& op, size_t number, DType dtype);

/// "sum(f32[5, 7, 3]) axes=[1]"
std::string describe(const FilledCase& c);

/// The step between 1 and the next number of a float type.
double epsilon(DType dtype);

/// How `actual` differs from the op's reference by more than rounding explains: "element 3 of 8 is 1.5, not 2
/// (off by 0.5, allowed 1e-06)". "" if it does not.
///
/// Rounding explains some units in the last place of the stored type and of the type computed in (f32 for f16
/// and bf16), the latter times the square root of the number of terms in an element. For elements that are
/// small beside the largest one, the units are those of a fraction of the largest.
/// `slack` is a factor for the allowed error.
std::string mismatch(const FilledCase& c, const HostArray& actual, double slack = 1);

}  // namespace athanor
