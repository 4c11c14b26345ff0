// The order of an epoch.
#pragma once
#include <cstdint>
#include <vector>

namespace athanor {

/// A random permutation of 0 ... count - 1 that depends only on `seed` and `epoch`: the shuffle of Fisher and
/// Yates in Durstenfeld's form, with numbers from Philox with `seed` as the key.
std::vector<int64_t> shuffled_order(int64_t count, uint64_t seed, uint64_t epoch);

}  // namespace athanor
