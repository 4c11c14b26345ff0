#include "athanor/train/ticks.h"

#include <cmath>

namespace athanor {
namespace {

// The smallest of 1, 2 and 5 times a power of ten that is at least `value`.
double round_up(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double mantissa : {1, 2, 5})
    if (mantissa * power >= value * (1 - 1e-9)) return mantissa * power;
  return 10 * power;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int count) {
  if (!(low < high)) return {};
  const double step = round_up((high - low) / count);
  std::vector<double> ticks;
  // Counts instead of adding, so that errors do not accumulate.
  const double slack = 1e-9 * step;
  for (double n = std::ceil((low - slack) / step); n * step <= high + slack; ++n)
    ticks.push_back(n == 0 ? 0.0 : n * step);
  return ticks;
}

}  // namespace athanor
