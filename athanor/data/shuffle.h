// The order of an epoch.
#pragma once
#include <cstdint>
#include <vector>

namespace athanor {

/// A random permutation of 0 ... count - 1 that depends on `seed` and `epoch` only: Fisher and Yates's
/// shuffle, in Durstenfeld's form, drawing from Philox with `seed` as the key.
std::vector<int64_t> shuffled_order(int64_t count, uint64_t seed, uint64_t epoch);

}  // namespace athanor
