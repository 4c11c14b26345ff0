// Groups of rows that only the device knows, in the texts of kernels: group e has those from ends[e - 1], or
// 0, up to ends[e].
#pragma once
#include <string>

#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

struct GroupsOfRows {
  int64_t stride, count;  // of the ends, i64
  int64_t extent;         // rows in all
  /// The function begin_of(ends, e): where a group begins. It is inside the matrix even if the ends are bad.
  std::string begin_of() const;
  /// Has one work-item fault if the end of group `group` is bad. `once`: holds once for each group, at most.
  void report_bad_end(Code& code, const std::string& group, const std::string& once) const;

  // Tiles of rows begin anew with each group. Slot begin / rows + e is the first one of group e, which leaves
  // each group at least as many as it needs: few stay empty. Rows behind the last group are one more.
  int64_t slots(int64_t rows_of_tile) const { return extent / rows_of_tile + count + 1; }
  /// Declares `group`, the tile's `first` row and the `end` of its group's rows for slot `slot`. Work-items
  /// whose slot is empty return.
  void find(Code& code, int64_t rows_of_tile, const std::string& group, const std::string& first,
            const std::string& end) const;

 private:
  std::string end_of(const std::string& group) const;
};

}  // namespace athanor::gpu
