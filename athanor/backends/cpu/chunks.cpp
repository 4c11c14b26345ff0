#include "athanor/backends/cpu/chunks.h"

#include <limits>
#include <thread>
#include <utility>

namespace athanor::cpu {
namespace {

constexpr int spins = 2000;  // tens of microseconds; then end() sleeps
constexpr uint64_t low = 0xffff;

}  // namespace

void spin_once() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void Chunks::begin(int64_t chunks, int team, int max_workers, const Body& body) {
  body_ = &body;
  team_.store(team, std::memory_order_relaxed);
  max_workers_.store(max_workers, std::memory_order_relaxed);
  left_.store(static_cast<int>(chunks), std::memory_order_relaxed);
  failed_ = std::numeric_limits<int64_t>::max();
  word_.store(++loops_ << 32 | static_cast<uint64_t>(chunks) << 16, std::memory_order_release);
}

// `word`: what the caller has seen; then what it took, or what is there now.
bool Chunks::take(uint64_t& word) {
  return word_.compare_exchange_strong(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire);
}

bool Chunks::run_one(int worker) {
  uint64_t word = word_.load(std::memory_order_acquire);
  while ((word & low) < (word >> 16 & low))
    if (take(word)) {
      run(static_cast<int64_t>(word & low), worker);
      return true;
    }
  return false;
}

bool Chunks::help(int helper) {
  uint64_t word = word_.load(std::memory_order_acquire);
  while ((word & low) < (word >> 16 & low)) {
    // If these belong to a later loop than the word, the word has changed, and nothing is taken.
    const int worker = team_.load(std::memory_order_relaxed) + helper;
    if (worker >= max_workers_.load(std::memory_order_relaxed)) return false;
    if (take(word)) {
      run(static_cast<int64_t>(word & low), worker);
      return true;
    }
  }
  return false;
}

// The loop cannot end before this: it waits for the chunk.
void Chunks::run(int64_t chunk, int worker) {
  try {
    (*body_)(chunk, worker);
  } catch (...) {
    const std::scoped_lock lock(error_mutex_);
    if (chunk < failed_) {
      failed_ = chunk;
      error_ = std::current_exception();
    }
  }
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
}

void Chunks::end() {
  for (int i = 0; i < spins && left_.load(std::memory_order_acquire) > 0; ++i) spin_once();
  for (int left = left_.load(std::memory_order_acquire); left > 0;
       left = left_.load(std::memory_order_acquire))
    left_.wait(left, std::memory_order_acquire);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace athanor::cpu
