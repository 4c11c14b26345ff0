// Regular expressions (ECMAScript's). <regex> is compiled once, not in each group of tests: that takes a
// second.
#pragma once
#include <string>
#include <vector>

namespace athanor::testing {

/// What matched, then what each group matched.
using Match = std::vector<std::string>;

/// The parts of the text that match, in order.
std::vector<Match> matches(const std::string& text, const std::string& pattern);
/// The first of them; {} if none does.
Match first_match(const std::string& text, const std::string& pattern);
/// Whether the whole text matches.
bool is_match(const std::string& text, const std::string& pattern);
/// The text with `put` in place of each part that matches.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& put);

}  // namespace athanor::testing
