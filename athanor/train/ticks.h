// Round numbers for axes.
#pragma once
#include <vector>

namespace athanor {

/// About `count` multiples of 1, 2 or 5 times a power of ten within [low, high]. {} unless low < high.
std::vector<double> nice_ticks(double low, double high, int count);

}  // namespace athanor
