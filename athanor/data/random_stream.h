// Random numbers of one example in one epoch.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>

#include "athanor/base/philox.h"

namespace athanor {

/// A stream that depends only on its four numbers: the same example in the same epoch gets the same numbers
/// in any thread, and after a run was resumed. Philox with the seed as the key.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t epoch, uint64_t index, uint32_t purpose = 0)
      : counter_{0, static_cast<uint32_t>(index), static_cast<uint32_t>(epoch),
                 purpose ^ static_cast<uint32_t>(index >> 32) << 8},
        key_(words_of(seed ^ other_than_shuffling)) {}

  /// A number in [0, 1), a multiple of 2^-32.
  double uniform() { return static_cast<double>(next()) * 0x1p-32; }
  double between(double least, double most) { return least + (most - least) * uniform(); }
  /// A whole number in [0, count), count up to 2^32.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(uint64_t{next()} * static_cast<uint64_t>(count) >> 32);
  }
  bool chance(double probability) { return uniform() < probability; }
  /// A number from the standard normal distribution (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  static constexpr uint64_t other_than_shuffling = 0x6175676d656e7421;

  uint32_t next() {
    if (used_ == 4) {
      words_ = philox4x32(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return words_[used_++];
  }

  std::array<uint32_t, 4> counter_, words_{};
  std::array<uint32_t, 2> key_;
  size_t used_ = 4;
};

}  // namespace athanor
