// Segments: parts of the graph whose values are computed again when gradients need them (nn::checkpoint).
#pragma once
#include <cstdint>

namespace athanor {

/// The segment that a node belongs to.
struct Segment {
  int32_t number = 0;   // 0: none
  bool result = false;  // a result of the segment, which is kept for the rest of the graph
  bool operator==(const Segment&) const = default;
};

/// While a SegmentScope exists, nodes made on this thread belong to its segment. The outermost scope wins: a
/// segment inside another one is part of it.
class SegmentScope {
 public:
  /// Begins a new segment.
  SegmentScope();
  /// The given segment, of a node that is being decomposed.
  explicit SegmentScope(Segment segment);
  ~SegmentScope();
  SegmentScope(const SegmentScope&) = delete;
  SegmentScope& operator=(const SegmentScope&) = delete;
  /// The segment of this thread's scope, or none.
  static Segment current();

 private:
  Segment before_;
};

}  // namespace athanor
