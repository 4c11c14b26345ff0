// A test of a device's memory: patterns are written over as much of it as can be had, and read back.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/device/device.h"

namespace athanor {

struct MemoryError {
  /// Where the word lies: its address as the device's kernels see it (with OpenCL 1.2, which has no
  /// addresses, in Athanor's numbering of its buffers), the block and the byte in it.
  uint64_t address = 0, block = 0, offset = 0;
  uint32_t expected = 0, found = 0;
  std::string pattern;
};

struct MemoryReport {
  uint64_t bytes = 0;          // under test
  uint64_t bytes_checked = 0;  // in all passes
  int64_t passes = 0;
  uint64_t wrong_words = 0;
  std::vector<MemoryError> errors;  // the first few
  double seconds = 0;
};

struct MemoryTestOptions {
  double seconds = 10;
  double share = 0.8;       // of the memory that is free, where that is known
  uint64_t most_bytes = 0;  // 0: no limit
  /// Is told what is done ("pass 3, random") and the seconds so far, before each block is written or read.
  std::function<void(const std::string& what, double seconds)> progress;
  /// Called between writing and reading each pass, with the blocks: for tests, which disturb them.
  std::function<void(const std::vector<std::shared_ptr<Storage>>&)> disturb;
};

/// Tests until the time is up, and at least one pass. Throws Error(out_of_memory) where no memory can be had.
MemoryReport test_memory(Device device, const MemoryTestOptions& options);

}  // namespace athanor
