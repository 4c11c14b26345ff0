// Rows that begin further apart than they are long: how elements lie in a tensor whose rows have gaps behind
// them (OperandDesc::padding, PlanValue::row_pitch).
#pragma once
#include <optional>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Where some elements of a tensor lie, in elements: the first, and the distances along each axis.
struct Places {
  int64_t offset = 0;
  Ints strides;
};

/// The same elements if rows of the tensor begin `to` apart instead of `from`. `extents`: of the axes.
/// None if an axis leaves the first `row` elements of a row, or goes from one row to the next.
std::optional<Places> with_pitch(const Places& places, const Ints& extents, int64_t row, int64_t from,
                                 int64_t to);

/// Whether an output's rows have gaps: see OperandDesc.
bool has_gaps(const OperandDesc& output);
/// The rows between which such an output has its gaps: elements that follow each other in memory, and the
/// distance from row to row.
struct Rows {
  int64_t length = 1, pitch = 1;
};
Rows rows_of(const OperandDesc& output);
/// The same request with outputs, and a result that is not stored, whose rows have none.
KernelRequest without_gaps(KernelRequest request);

}  // namespace athanor
