// Random programs of ops that others seldom have, among layers; also with large extents, and with none.
#pragma once
#include "tests/compile/random_sequences.h"

namespace athanor::testing {

class RareMaker : public SequenceMaker {
 public:
  /// `empties`, `large`: how probable it is that an extent of a leaf is 0, or up to 4099.
  RareMaker(uint64_t seed, Numbers numbers, double empties = 0, double large = 0)
      : SequenceMaker(seed, numbers) {
    empties_ = empties, large_ = large;
    if (large > 0) most_elements_ = 80000, largest_ = 200;
  }

 protected:
  bool op() override {
    if (chance(0.4)) return LayerMaker::op();
    const bool reals = numbers_ != Numbers::whole;
    switch (between(0, 11)) {
      case 0:
        return value_of_one();
      case 1:
        return value_of_several();
      case 2:
        return rare_reduction();
      case 3:
        return order();
      case 4:
        return rare_movement();
      case 5:
      case 6:
        return indexed();
      case 7:
      case 8:
        return rare_product();
      case 9:
        return reals && chance(0.4) ? loss() : drawn();
      case 10:
        return reals && chance(0.6) ? sequence() : rare_image();
      default:
        return rare_image();
    }
  }
};

}  // namespace athanor::testing
