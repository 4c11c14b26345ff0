#include "athanor/runtime/replays.h"

#include <algorithm>

namespace athanor {

void Replays::look(const std::vector<Where>& values) {
  slot_of_.resize(values.size(), -1);
  for (size_t v = 0; v < values.size() && !last_.empty(); ++v)
    if (values[v].memory != last_[v] && values[v].bytes > 0 && values[v].bytes <= small && slot_of_[v] < 0)
      give_slot(v, values[v].bytes);
  last_.clear();
  key_.clear();
  for (size_t v = 0; v < values.size(); ++v) {
    last_.push_back(values[v].memory);
    key_.push_back(slot_of_[v] < 0 ? values[v].memory : nullptr);
  }
}

// Launches that were captured before do not use the slot, so they are dropped.
void Replays::give_slot(size_t value, int64_t bytes) {
  constexpr int64_t alignment = 64;
  slot_of_[value] = slot_bytes_;
  slot_bytes_ += (bytes + alignment - 1) / alignment * alignment;
  slots_.clear();
  entries_.clear();
}

const std::shared_ptr<Storage>& Replays::slots(Device device) {
  std::shared_ptr<Storage>& storage = slots_[device];
  if (storage == nullptr && slot_bytes_ > 0) storage = allocate(device, static_cast<size_t>(slot_bytes_));
  return storage;
}

const Replays::Captured* Replays::find(const std::function<Captured()>& capture) {
  if (impossible_) return nullptr;
  const auto found = std::ranges::find(entries_, key_, &Entry::addresses);
  if (found == entries_.end()) {
    if (entries_.size() == most) entries_.pop_back();
    entries_.push_front({key_, {}});
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found);
  if (found->captured.empty()) {
    found->captured = capture();
    impossible_ = found->captured.empty();
  }
  return impossible_ ? nullptr : &found->captured;
}

}  // namespace athanor
