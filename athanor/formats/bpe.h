// Byte pair encoding of one word; used by tokenizer.cpp.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace athanor {

/// The pairs of tokens that become one, in their order.
class BpeMerges {
 public:
  /// The next merge, in order of falling priority.
  void add(int32_t left, int32_t right, int32_t merged);
  /// Joins the pair of highest priority, the leftmost first, until no pair can be joined.
  /// O(n log n) in the length of the word.
  void apply(std::vector<int32_t>& word) const;

 private:
  struct Merge {
    int32_t rank, merged;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace athanor
