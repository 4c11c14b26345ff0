// Replays: a plan's launches, captured once and then replayed, a stretch of them in one call.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "athanor/kernels/queue.h"

namespace athanor {

/// The captured runs of one plan. A captured launch contains the addresses of its buffers. Parameters keep
/// their addresses. Small values whose addresses change from run to run (learning rates, losses) get slots:
/// they are copied into these before a run, or out of them after it. Large values (batches) use a few blocks
/// of the device's pool in turn, so there is one captured run for each set of addresses that repeats.
class Replays {
 public:
  /// The memory (Storage::identity()) of a value of the plan in a run. `bytes`: 0 if it cannot get a slot.
  struct Where {
    const void* memory = nullptr;
    int64_t bytes = 0;
  };
  /// One for each stretch of the plan; nullptr: its steps are given one by one.
  using Captured = std::vector<std::unique_ptr<Replay>>;

  /// Records a run's values in the plan's order, and after them other memory that its launches use. Call it
  /// before the functions below.
  void look(const std::vector<Where>& values);
  /// The value's offset in slots(); -1 if it has no slot.
  int64_t slot(size_t value) const { return slot_of_[value]; }
  /// Memory of the device for the slots of its values; nullptr if there are no slots.
  const std::shared_ptr<Storage>& slots(Device device);
  /// The captured run for the addresses of the last values; nullptr if they are new, or if a driver refuses
  /// to capture. `capture` is called when they occur for the second time; it returns {} if a driver refuses.
  const Captured* find(const std::function<Captured()>& capture);
  /// How often captured runs were replayed.
  int64_t runs = 0;

 private:
  static constexpr int64_t small = 4096;  // bytes: copying them takes no longer than a launch
  // A pool of a few blocks repeats after some steps. Each captured launch takes the driver some KiB.
  static constexpr size_t most = 16;
  using Addresses = std::vector<const void*>;
  struct Entry {
    Addresses addresses;
    Captured captured;
  };
  void give_slot(size_t value, int64_t bytes);

  Addresses last_;  // of all values
  Addresses key_;   // of those without a slot
  std::vector<int64_t> slot_of_;
  int64_t slot_bytes_ = 0;
  std::map<Device, std::shared_ptr<Storage>> slots_;
  std::list<Entry> entries_;  // the last used in front
  bool impossible_ = false;
};

}  // namespace athanor
