// A picture of a confusion matrix.
#pragma once
#include <string>
#include <vector>

#include "athanor/train/class_counts.h"

namespace athanor {

/// More classes than this give no picture that one could read.
inline constexpr int64_t most_drawn_classes = 200;

/// An SVG document that stands by itself, for light and dark pages: a row for each right class, a column for
/// each answer, shaded by the share of the row. Up to 26 classes the cells have their counts.
std::string draw_confusion(const ClassCounts& counts, const std::vector<std::string>& names,
                           const std::string& title, const std::string& subtitle);

}  // namespace athanor
