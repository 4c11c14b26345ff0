// Segments: parts of the graph whose values are computed again when gradients need them (nn::checkpoint).
#pragma once
#include <cstdint>

namespace athanor {

/// The segment that a node belongs to.
struct Segment {
  int32_t number = 0;   // 0: none
  bool result = false;  // what the segment gives to the rest of the graph, which is kept
  bool operator==(const Segment&) const = default;
};

/// While a SegmentScope exists, nodes made on this thread belong to its segment. The outermost scope wins:
/// what lies within a segment is computed again with it.
class SegmentScope {
 public:
  /// A new segment.
  SegmentScope();
  /// That of a node that is being taken apart.
  explicit SegmentScope(Segment segment);
  ~SegmentScope();
  SegmentScope(const SegmentScope&) = delete;
  SegmentScope& operator=(const SegmentScope&) = delete;
  /// That of this thread's scope, or none.
  static Segment current();

 private:
  Segment before_;
};

}  // namespace athanor
