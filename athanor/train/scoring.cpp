#include "athanor/train/scoring.h"

#include <fmt/format.h>

namespace athanor {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

Unit examples_unit() {
  return {.one = "example",
          .many = "examples",
          .rate = "examples/s",
          .rate_field = "examples_per_second",
          .rated = "examples"};
}

std::vector<Measure> ClassScoring::measures(double /*mean_loss*/, double accuracy) const {
  return {{"accuracy", accuracy, fmt::format("accuracy {:.1f} %", 100 * accuracy)}};
}

std::string ClassScoring::bar(double /*mean_loss*/, double accuracy) const {
  return fmt::format("acc {:4.1f} %", 100 * accuracy);
}

ResultText ClassScoring::in_words(double /*mean_loss*/, double accuracy, int64_t count) const {
  return {fmt::format("{:.1f} %", 100 * accuracy),
          fmt::format(" of {} test {} are right", grouped(count), unit().many)};
}

}  // namespace athanor
