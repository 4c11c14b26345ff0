// Queues: the steps that each step must wait for. Steps of one queue run in order. Between queues, a step
// waits for the last step that wrote memory which it uses, or used memory which it writes.
#include <algorithm>

#include "athanor/compile/plan.h"

namespace athanor {
namespace {

/// Bytes that a step uses in an arena or in a bound value.
struct Access {
  int memory;  // a bound value's number; for an arena: -1 - its number
  int64_t begin, end;
  bool write;
  bool conflicts(const Access& other) const {
    return memory == other.memory && begin < other.end && other.begin < end && (write || other.write);
  }
};

class QueueOrder {
 public:
  explicit QueueOrder(Plan& plan) : plan_(plan) {
    for (const PlanStep& step : plan.steps) accesses_.push_back(accesses_of(step));
  }

  void run() {
    const size_t queues = plan_.queues.size();
    // For each step and queue: the last step of the queue that has certainly finished when the step begins.
    std::vector<std::vector<int>> known(plan_.steps.size(), std::vector<int>(queues, -1));
    std::vector<int> last(queues, -1);
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      PlanStep& step = plan_.steps[static_cast<size_t>(s)];
      step.waits.clear();
      std::vector<int>& mine = known[static_cast<size_t>(s)];
      const auto own = static_cast<size_t>(step.queue);
      if (last[own] >= 0) learn(mine, known[static_cast<size_t>(last[own])], own, last[own]);
      for (int earlier = s - 1; earlier >= 0; --earlier) {
        PlanStep& before = plan_.steps[static_cast<size_t>(earlier)];
        const auto its = static_cast<size_t>(before.queue);
        if (its == own || earlier <= mine[its] || !(conflict(s, earlier) || comes_after(s, earlier)))
          continue;
        step.waits.push_back(earlier);
        before.signals = true;
        learn(mine, known[static_cast<size_t>(earlier)], its, earlier);
      }
      last[own] = s;
    }
  }

 private:
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }

  // Adds what is known once `step` of `queue` has finished.
  static void learn(std::vector<int>& mine, const std::vector<int>& other, size_t queue, int step) {
    for (size_t q = 0; q < mine.size(); ++q) mine[q] = std::max(mine[q], other[q]);
    mine[queue] = std::max(mine[queue], step);
  }

  Access access_of(int v, bool write) const {
    const auto bytes = std::max<int64_t>(1, value(v).bytes());
    if (value(v).kind == PlanValue::Kind::temporary)
      return {arena_of(value(v).type.device), value(v).offset, value(v).offset + bytes, write};
    const bool takes_over = value(v).kind == PlanValue::Kind::output && value(v).in_place_of >= 0;
    return {takes_over ? value(v).in_place_of : v, 0, bytes, write};
  }

  int arena_of(Device device) const {
    return -1 - static_cast<int>(std::ranges::find(plan_.arenas, device, &PlanArena::device) -
                                 plan_.arenas.begin());
  }

  std::vector<Access> accesses_of(const PlanStep& step) const {
    std::vector<Access> all;
    for (const int v : step.reads) all.push_back(access_of(v, false));
    for (const int v : step.writes) all.push_back(access_of(v, true));
    if (step.scratch_offset >= 0)
      all.push_back({arena_of(step.device), step.scratch_offset,
                     step.scratch_offset + static_cast<int64_t>(step.kernel.scratch_bytes), true});
    return all;
  }

  bool conflict(int a, int b) const {
    for (const Access& one : accesses_[static_cast<size_t>(a)])
      for (const Access& other : accesses_[static_cast<size_t>(b)])
        if (one.conflicts(other)) return true;
    return false;
  }

  bool comes_after(int later, int earlier) const {
    const auto writes = [&](int v) {
      return std::ranges::count(plan_.steps[static_cast<size_t>(earlier)].writes, v) > 0;
    };
    return std::ranges::any_of(plan_.steps[static_cast<size_t>(later)].after, writes);
  }

  Plan& plan_;
  std::vector<std::vector<Access>> accesses_;
};

}  // namespace

void order_queues(Plan& plan) {
  if (plan.queues.size() > 1) QueueOrder(plan).run();
}

}  // namespace athanor
