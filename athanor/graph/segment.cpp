#include "athanor/graph/segment.h"

namespace athanor {

static thread_local Segment segment_now;
static thread_local int32_t last_segment = 0;

SegmentScope::SegmentScope() : before_(segment_now) {
  if (before_.number == 0) segment_now = {++last_segment};
}
SegmentScope::SegmentScope(Segment segment) : before_(segment_now) { segment_now = segment; }
SegmentScope::~SegmentScope() { segment_now = before_; }
Segment SegmentScope::current() { return segment_now; }

}  // namespace athanor
