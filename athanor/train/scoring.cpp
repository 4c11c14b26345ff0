#include "athanor/train/scoring.h"

#include <fmt/format.h>

namespace athanor {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::vector<Measure> PictureScoring::measures(double /*mean_loss*/, double accuracy) const {
  return {{"accuracy", accuracy, fmt::format("accuracy {:.1f} %", 100 * accuracy)}};
}

std::string PictureScoring::bar(double /*mean_loss*/, double accuracy) const {
  return fmt::format("acc {:4.1f} %", 100 * accuracy);
}

ResultText PictureScoring::in_words(double /*mean_loss*/, double accuracy, int64_t count) const {
  return {fmt::format("{:.1f} %", 100 * accuracy),
          fmt::format(" of {} test images are right", grouped(count))};
}

}  // namespace athanor
