// A test of a device's memory: writes patterns to as much of it as possible and reads them back.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/memory/storage.h"

namespace athanor {

struct MemoryError {
  /// The place of the word: its address as the device's kernels see it (OpenCL 1.2 has no addresses: there it
  /// is Athanor's numbering of buffers), the block, and the byte in the block.
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
  double share = 0.8;       // of the free memory, if that is known
  uint64_t most_bytes = 0;  // 0: no limit
  uint64_t first_word = 0;  // the number that the first word has in patterns; for tests
  /// Called before each block is written or read, with the current work ("pass 3, random") and the seconds so
  /// far.
  std::function<void(const std::string& what, double seconds)> progress;
  /// Called between writing and reading in each pass, with the blocks. For tests, which change them.
  std::function<void(const std::vector<std::shared_ptr<Storage>>&)> disturb;
};

/// Tests until the time is over, but at least one pass. Throws Error(out_of_memory) if there is no memory.
MemoryReport test_memory(Device device, const MemoryTestOptions& options);

}  // namespace athanor
