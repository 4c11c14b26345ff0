#include "athanor/data/shuffle.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "athanor/base/philox.h"

namespace athanor {

std::vector<int64_t> shuffled_order(int64_t count, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto [epoch_low, epoch_high] = words_of(epoch);
  for (size_t i = order.size(); i > 1; --i) {
    const auto [low, high] = words_of(i);
    const auto random = philox4x32({low, high, epoch_low, epoch_high}, words_of(seed));
    // 64 random bits: the remainder favours small numbers by less than count / 2^64, which cannot be noticed.
    const uint64_t wide = uint64_t{random[1]} << 32 | random[0];
    std::swap(order[i - 1], order[wide % i]);
  }
  return order;
}

}  // namespace athanor
