// Probes of the processor, with one thread on every core that this process may use.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/threads.h"
#include "athanor/examine/probe.h"

namespace athanor {
namespace {

// Seconds until `threads` threads have all done their part; the best of some runs.
template <class Work>
double best_of(int threads, int runs, Work work) {
  double least = 1e30;
  for (int run = 0; run < runs; ++run) {
    std::atomic<bool> go{false};
    std::vector<std::thread> all;
    all.reserve(static_cast<size_t>(threads));
    for (int t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
        work(t);
      });
    const auto start = Clock::now();
    go.store(true, std::memory_order_release);
    for (std::thread& thread : all) thread.join();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

// A result goes here, so that the compiler cannot remove its computation.
std::atomic<uint64_t> sink{0};

double seconds_of_chain(int threads) {
  return best_of(threads, 4, [](int t) {
    uint64_t x = static_cast<uint64_t>(t) + 1;
    for (int i = 0; i < 10'000'000; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
    sink += x;
  });
}

double copied_gb_s(int threads, size_t bytes, int rounds) {
  std::vector<std::vector<std::byte>> from(static_cast<size_t>(threads)), to(static_cast<size_t>(threads));
  for (auto& part : from) part.resize(bytes, std::byte{1});
  for (auto& part : to) part.resize(bytes, std::byte{2});
  const double seconds = best_of(threads, 4, [&](int t) {
    const auto i = static_cast<size_t>(t);
    for (int round = 0; round < rounds; ++round) {
      std::memcpy(to[i].data(), from[i].data(), bytes);
      sink += static_cast<uint64_t>(to[i][static_cast<size_t>(round) % bytes]);
    }
  });
  return 2.0 * static_cast<double>(bytes) * rounds * threads / seconds * 1e-9;
}

}  // namespace

std::vector<ProbePart> probe_parts_of_cpu() {
  const int threads = cpu_threads();
  using All = std::vector<Measurement>;
  return {{"concurrency",
           {"concurrency"},
           [threads](const ProbeProgress&) {
             const double alone = seconds_of_chain(1), together = seconds_of_chain(threads);
             return All{
                 {"concurrency", alone / together * threads, "threads of arithmetic that run at once", {}}};
           }},
          {"memory bandwidth",
           {"bandwidth_gb_s"},
           [threads](const ProbeProgress&) {
             return All{{"bandwidth_gb_s",
                         copied_gb_s(threads, size_t{64} << 20, 1),
                         "copying 64 MiB a thread, read and written",
                         {}}};
           }},
          {"cache bandwidth",
           {"cache_bandwidth_gb_s"},
           [threads](const ProbeProgress&) {
             return All{{"cache_bandwidth_gb_s",
                         copied_gb_s(threads, size_t{64} << 10, 2000),
                         "copying 64 KiB a thread, read and written",
                         {}}};
           }},
          {"rate in 8-bit integers", {"i8_tops"}, [](const ProbeProgress&) {
             return missing({"i8_tops"}, "Athanor's own kernels for the processor have no 8-bit arithmetic");
           }}};
}

}  // namespace athanor
