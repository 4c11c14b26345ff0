// A drawing of a confusion matrix.
#pragma once
#include <string>
#include <vector>

#include "athanor/train/class_counts.h"

namespace athanor {

/// A drawing of more classes than this would be unreadable.
inline constexpr int64_t most_drawn_classes = 200;

/// A self-contained SVG document, for light and dark pages: a row for each right class, a column for
/// each answer, shaded by the share of the row. Up to 26 classes the cells have their counts.
std::string draw_confusion(const ClassCounts& counts, const std::vector<std::string>& names,
                           const std::string& title, const std::string& subtitle);

}  // namespace athanor
