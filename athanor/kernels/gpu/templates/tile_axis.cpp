#include "athanor/kernels/gpu/templates/tile_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

TileAxis::TileAxis(const std::vector<Digit>& digits) {
  for (const Digit& digit : digits) {
    if (digit.extent == 1) continue;
    if (!digits_.empty() && digits_.back().stride == digit.extent * digit.stride)
      digits_.back() = {digits_.back().extent * digit.extent, digit.stride};
    else
      digits_.push_back(digit);
  }
  if (digits_.empty()) digits_.push_back(digits.back());
}

int64_t TileAxis::extent() const {
  int64_t all = 1;
  for (const Digit& digit : digits_) all *= digit.extent;
  return all;
}

int64_t TileAxis::reach() const {
  int64_t all = 0;
  for (const Digit& digit : digits_) all += std::max<int64_t>(digit.extent - 1, 0) * std::abs(digit.stride);
  return all;
}

bool TileAxis::forward() const {
  return std::ranges::all_of(digits_, [](const Digit& digit) { return digit.stride >= 0; });
}

bool TileAxis::strides_divide_by(int64_t v, bool but_innermost) const {
  return std::ranges::all_of(digits_, [&](const Digit& digit) {
    return digit.stride % v == 0 || (but_innermost && &digit == &digits_.back());
  });
}

TileAxis& TileAxis::pad(int64_t elements) {
  padding_ = elements;
  return *this;
}

TileAxis& TileAxis::store_only(int64_t of_run) {
  stored_ = of_run;
  return *this;
}

std::string TileAxis::function(const std::string& name) const {
  if (even()) return {};
  std::string sum;
  int64_t below = extent();
  for (const Digit& digit : digits_) {
    const bool outermost = &digit == digits_.data();
    const int64_t above = below;
    below /= digit.extent;
    std::string part = "i";
    if (!outermost) part = fmt::format("i % {}", above);
    part = divided(part, below);
    if (digit.stride != 1) part = fmt::format("{} * {}", part, digit.stride);
    sum += (sum.empty() ? "" : " + ") + part;
  }
  return fmt::format("DEVICE u32 {}(u32 i) {{ return {}; }}\n", name, sum);
}

std::string TileAxis::place(const std::string& name, const std::string& i) const {
  return even() ? times(i, stride()) : fmt::format("{}({})", name, i);
}

}  // namespace athanor::gpu
