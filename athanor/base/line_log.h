// A file that grows line by line and can be cut back to an earlier state: metrics.jsonl.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "athanor/base/os/file.h"

namespace athanor {

/// Appends lines to a file. A line is written in one call, and readers see it when write() returns.
///
/// To resume a run at the right line, store size() with the checkpoint (after sync()) and open the log with
/// it. This cuts off lines that the killed run wrote later; the resumed run writes them again.
class LineLog {
 public:
  /// Opens or creates `path` and cuts it to its first `keep_bytes`. Throws Error(io) if the system refuses,
  /// and Error(format) if the file is shorter or `keep_bytes` is not the end of a line.
  explicit LineLog(std::filesystem::path path, uint64_t keep_bytes = 0);

  /// Appends `line` and a newline. Throws Error(io); then no part of the line is in the file.
  void write(std::string_view line);
  /// Returns when all lines are on the disk.
  void sync();
  /// The bytes in the file. It contains only whole lines.
  uint64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  os::File file_;
  uint64_t size_;
};

}  // namespace athanor
