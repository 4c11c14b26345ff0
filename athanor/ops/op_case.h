// The cases that ops declare, with their inputs filled in: what tests and the examination of a device run.
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
  std::vector<bool> free;  // inputs whose dtype was open: those that may have gradients

  /// The inputs as the op's reference takes them.
  std::vector<RefArray> exact() const;
};

/// Inputs at random (the same at every run; another `seed` gives others), rounded to `dtype` where the case
/// leaves it open; integers are whole.
FilledCase fill_case(const Op& op, const OpCase& spec, DType dtype, uint64_t seed = 0);
/// One of the op's own cases.
FilledCase fill_case(const Op& op, size_t number, DType dtype);

/// "sum(f32[5, 7, 3]) axes=[1]"
std::string describe(const FilledCase& c);

/// The step between 1 and the next number of a float type.
double epsilon(DType dtype);

/// How `actual` differs from the op's reference meaning of the case by more than rounding explains: "element
/// 3 is 1.5, not 2 (off by 0.5, allowed 1e-06)". "" where it does not.
///
/// Rounding is some units in the last place of what is stored and of what is computed in (f32 for f16 and
/// bf16), for reductions times the square root of how many terms meet in an element. Elements that are small
/// beside the largest are measured against a fraction of it.
/// `slack` widens what is allowed.
std::string mismatch(const FilledCase& c, const HostArray& actual, double slack = 1);

}  // namespace athanor
