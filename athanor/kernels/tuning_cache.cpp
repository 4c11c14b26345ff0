#include "athanor/kernels/tuning_cache.h"

namespace athanor {

TuningCache& TuningCache::instance() {
  static TuningCache cache;
  return cache;
}

void TuningCache::Known::take(const std::string& key, const KernelCache::Winner& winner) {
  used[key] = winner.name;
  winners[key] = winner;
  winners[key].disturbed = 0;
  taken.erase(key);
}

std::optional<KernelCache::Winner> TuningCache::find(const std::string& key, const std::string& candidates,
                                                     bool measured) {
  const std::scoped_lock lock(mutex_);
  std::optional<KernelCache::Winner> winner;
  if (auto found = known_.restored.find(key); found != known_.restored.end()) {
    winner = KernelCache::Winner{.name = found->second};
  } else if (measured) {
    // If this process has chosen a kernel, it keeps it, whatever others have measured since.
    if (auto known = known_.winners.find(key); known != known_.winners.end()) {
      winner = known->second;
      if (winner->candidates != candidates) winner.reset();
    } else {
      winner = KernelCache::instance().find_winner(key);
      if (winner && winner->candidates != candidates) winner.reset();
      if (winner) known_.take(key, *winner);
    }
  }
  if (winner) known_.used[key] = winner->name;
  return winner;
}

void TuningCache::take(const std::string& key, const KernelCache::Winner& winner, Taken why) {
  const std::scoped_lock lock(mutex_);
  known_.take(key, winner);
  known_.taken[key] = why;
}

std::optional<Taken> TuningCache::taken(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.taken.find(key);
  return found == known_.taken.end() ? std::nullopt : std::optional(found->second);
}

void TuningCache::remember(const std::string& key, const KernelCache::Winner& winner) {
  const std::scoped_lock lock(mutex_);
  known_.take(key, winner);
  known_.restored.erase(key);
  known_.problems_timed.insert(key);
  ++known_.timed;
  KernelCache::instance().store_winner(key, winner);
}

std::map<std::string, std::string> TuningCache::used() const {
  const std::scoped_lock lock(mutex_);
  return known_.used;
}

void TuningCache::restore(const std::map<std::string, std::string>& winners) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, winner] : winners) known_.restored[key] = winner;
}

bool TuningCache::is_restored(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  return known_.restored.contains(key);
}

bool TuningCache::has_timed(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  return known_.problems_timed.contains(key);
}

int64_t TuningCache::timed() const {
  const std::scoped_lock lock(mutex_);
  return known_.timed;
}

bool TuningCache::is_quiet() const {
  const std::scoped_lock lock(mutex_);
  return known_.quiet;
}

void TuningCache::found_busy() {
  const std::scoped_lock lock(mutex_);
  known_.quiet = false;
}

void TuningCache::start_anew() {
  const std::scoped_lock lock(mutex_);
  known_ = {};
}

}  // namespace athanor
