// Replays: a plan's launches, captured once and given to the device in one call from then on.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "athanor/kernels/queue.h"

namespace athanor {

/// The captured runs of one plan. A captured launch has the addresses of its buffers in it. Parameters stay
/// where they are. Small values that lie elsewhere in each run (learning rates, losses) get slots: they are
/// copied into them before a run, or out of them after it. Large ones (batches) go round in a few blocks of
/// the device's pool, so there is one captured run for each set of addresses that comes again.
class Replays {
 public:
  /// Where a value of the plan lies in a run. `bytes`: 0 if it cannot get a slot.
  struct Where {
    const void* address = nullptr;
    int64_t bytes = 0;
  };

  /// Notes a run's values, in the plan's order: before all that follows.
  void look(const std::vector<Where>& values);
  /// The value's offset in slots(); -1 where it has none.
  int64_t slot(size_t value) const { return slot_of_[value]; }
  /// nullptr where there are no slots.
  const std::shared_ptr<Storage>& slots(Device device);
  /// The captured run for the addresses seen last; nullptr when they are new, or the driver refuses to keep
  /// launches. `capture` is called when they come for the second time.
  Replay* find(const std::function<std::unique_ptr<Replay>()>& capture);
  /// How often one ran.
  int64_t runs = 0;

 private:
  static constexpr int64_t small = 4096;  // bytes: copying them takes no longer than a launch
  // Pools of a few blocks go round after some steps. Each run takes the driver some KiB for each launch.
  static constexpr size_t most = 16;
  using Addresses = std::vector<const void*>;
  struct Entry {
    Addresses addresses;
    std::unique_ptr<Replay> replay;
  };
  void give_slot(size_t value, int64_t bytes);

  Addresses last_;  // of all values
  Addresses key_;   // of those without a slot
  std::vector<int64_t> slot_of_;
  int64_t slot_bytes_ = 0;
  std::shared_ptr<Storage> slots_;
  std::list<Entry> entries_;  // the last used in front
  bool impossible_ = false;
};

}  // namespace athanor
