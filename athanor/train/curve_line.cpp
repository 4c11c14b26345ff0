#include "athanor/train/curve_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace athanor {
namespace {

constexpr double most_points = 1400;  // of a line: about two for each pixel

}  // namespace

CurveLine running_mean(const CurveLine& line) {
  const size_t reach = std::clamp<size_t>(line.size() / 60, 1, 150);
  std::vector<double> sums{0};
  for (const CurvePoint& point : line) sums.push_back(sums.back() + point.value);
  CurveLine means;
  for (size_t i = 0; i < line.size(); ++i) {
    const size_t back = std::min(i, reach), ahead = std::min(back, line.size() - 1 - i);
    means.push_back(
        {line[i].step, (sums[i + ahead + 1] - sums[i - back]) / static_cast<double>(back + ahead + 1)});
  }
  return means;
}

CurveLine thinned(const CurveLine& line) {
  const auto stretch = static_cast<size_t>(std::ceil(2 * static_cast<double>(line.size()) / most_points));
  if (stretch <= 2) return line;
  CurveLine result;
  const auto by_value = [](const CurvePoint& a, const CurvePoint& b) { return a.value < b.value; };
  for (size_t i = 0; i < line.size(); i += stretch) {
    const auto begin = line.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = line.begin() + static_cast<std::ptrdiff_t>(std::min(i + stretch, line.size()));
    auto [low, high] = std::minmax_element(begin, end, by_value);
    if (high < low) std::swap(low, high);
    result.push_back(*low);
    if (high != low) result.push_back(*high);
  }
  return result;
}

double quantile(const CurveLine& line, double share) {
  std::vector<double> values;
  for (const CurvePoint& point : line) values.push_back(point.value);
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::string with_commas(double number) {
  std::string text = fmt::format("{:.0f}", number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

}  // namespace athanor
