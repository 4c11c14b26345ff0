// A part of a dataset that has no test part of its own.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace athanor {

/// Which of the examples are kept for testing: of each class about a tenth, at least one where it has two or
/// more. It depends on the examples' names alone, not on their order, so that both splits agree and a picture
/// that is added moves few others.
std::vector<bool> held_out(const std::vector<std::string>& names, const std::vector<int64_t>& labels);

}  // namespace athanor
