// Test examples of a dataset that does not mark any.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace athanor {

/// Which examples are held out for testing: about a tenth of each class, and at least one if it has two or
/// more. This depends on the examples' names only, not on their order, so that both splits agree and an added
/// image moves few others.
std::vector<bool> held_out(const std::vector<std::string>& names, const std::vector<int64_t>& labels);

}  // namespace athanor
