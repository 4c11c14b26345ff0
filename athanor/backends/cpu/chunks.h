// The chunks of a loop. Threads that come and go take them one by one.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace athanor::cpu {

/// Lets a waiting thread leave the core's units to others for a moment.
void spin_once();

/// One loop at a time. A thread calls begin(), any threads call run_one() at any time, and the first calls
/// end().
class Chunks {
 public:
  static constexpr int64_t most = 0xffff;

  using Body = std::function<void(int64_t chunk, int worker)>;

  /// `chunks`: at most `most`. `team`: the threads that take part from begin to end. Threads beyond the team
  /// may help while their worker's number is below `max_workers`.
  void begin(int64_t chunks, int team, int max_workers, const Body& body);

  /// Runs body(chunk, worker) for one chunk. Returns false if none is left. `worker` is below `team`.
  bool run_one(int worker);
  /// The same for helper 0, 1, 2 ...; its worker's number is `team` + helper.
  bool help(int helper);

  /// Waits until all chunks have run. Throws the exception of the first chunk that threw.
  void end();

 private:
  bool take(uint64_t& word);
  void run(int64_t chunk, int worker);

  // A loop's number, its number of chunks and the next chunk: 32, 16 and 16 bits. They are one word, so that
  // a thread takes a chunk of the loop that it has looked at, or none.
  std::atomic<uint64_t> word_{0};
  uint64_t loops_ = 0;
  std::atomic<int> team_{0}, max_workers_{0};
  std::atomic<int> left_{0};
  const Body* body_ = nullptr;
  std::mutex error_mutex_;
  int64_t failed_ = 0;
  std::exception_ptr error_;
};

}  // namespace athanor::cpu
