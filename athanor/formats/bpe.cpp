#include "athanor/formats/bpe.h"

#include <cstddef>
#include <queue>
#include <tuple>

namespace athanor {

void BpeMerges::add(int32_t left, int32_t right, int32_t merged) {
  merges_[key(left, right)] = {static_cast<int32_t>(merges_.size()), merged};
}

void BpeMerges::apply(std::vector<int32_t>& word) const {
  struct Symbol {
    int32_t token, before, after;  // neighbours, -1 at the ends; token -1: joined to another
  };
  struct Candidate {
    int32_t rank, at, left, right, merged;
    bool operator<(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);  // the smallest is on top
    }
  };
  const auto count = static_cast<int32_t>(word.size());
  std::vector<Symbol> symbols;
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back({word[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  const auto symbol = [&](int32_t at) -> Symbol& { return symbols[static_cast<size_t>(at)]; };
  std::priority_queue<Candidate> candidates;
  const auto offer = [&](int32_t at) {
    if (at < 0 || symbol(at).after < 0) return;
    const int32_t left = symbol(at).token, right = symbol(symbol(at).after).token;
    if (const auto found = merges_.find(key(left, right)); found != merges_.end())
      candidates.push({found->second.rank, at, left, right, found->second.merged});
  };
  for (int32_t i = 0; i < count; ++i) offer(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbol(best.at);
    // A neighbour may have been joined since.
    if (left.token != best.left || left.after < 0 || symbol(left.after).token != best.right) continue;
    Symbol& right = symbol(left.after);
    left.token = best.merged;
    left.after = right.after;
    right.token = -1;
    if (left.after >= 0) symbol(left.after).before = best.at;
    offer(left.before);
    offer(best.at);
  }
  word.clear();
  for (int32_t at = 0; at >= 0 && count > 0; at = symbol(at).after) word.push_back(symbol(at).token);
}

}  // namespace athanor
