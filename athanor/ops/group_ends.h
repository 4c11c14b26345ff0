// The ends of the groups of rows that grouped_matmul multiplies.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "athanor/base/error.h"

namespace athanor {

/// Throws Error(value) if the ends fall or do not lie in [0, rows].
inline void check_group_ends(const std::vector<int64_t>& ends, int64_t rows) {
  int64_t before = 0;
  for (size_t i = 0; i < ends.size(); before = ends[i++])
    if (ends[i] < before || ends[i] > rows)
      throw Error(ErrorCode::value,
                  fmt::format("group {} ends at row {}, {}", i, ends[i],
                              ends[i] > rows ? fmt::format("behind the {} rows", rows)
                                             : fmt::format("before row {}, where it begins", before)),
                  {}, fmt::format("Ends must not fall, and must lie in [0, {}].", rows));
}

}  // namespace athanor
