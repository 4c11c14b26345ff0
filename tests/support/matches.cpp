#include "matches.h"

#include <regex>

namespace athanor::testing {

std::vector<Match> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<Match> all;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    all.emplace_back(at->begin(), at->end());
  return all;
}

Match first_match(const std::string& text, const std::string& pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern))) return {};
  return {found.begin(), found.end()};
}

bool is_match(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

std::string replaced(const std::string& text, const std::string& pattern, const std::string& put) {
  const std::regex expression(pattern);
  std::string result;
  auto rest = text.begin();
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
    result.append(rest, (*at)[0].first).append(put);
    rest = (*at)[0].second;
  }
  return result.append(rest, text.end());
}

}  // namespace athanor::testing
