// Numbers for checks and timings. Making as many as a GPU's operands have would take the host longer than the
// device takes to compute with them, so a few repeat.
#pragma once
#include <cstdint>

#include "athanor/graph/host_array.h"
#include "athanor/memory/storage.h"

namespace athanor {

/// Numbers repeat after this many. It is a prime, so that neighbouring tiles, rows and planes hold different
/// numbers.
constexpr int64_t number_period = 65'537;

/// Fills the first `bytes` of the storage with `numbers`, again and again; the last time it may be cut off.
void fill_repeating(Storage& storage, const HostArray& numbers, size_t bytes);

/// Fills elements `first` to `last` of the host's memory as fill_repeating() would.
void fill_repeating(void* memory, const HostArray& numbers, int64_t first, int64_t last);

}  // namespace athanor
