#include "athanor/examine/memory_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "athanor/base/clock.h"
#include "athanor/base/embedded.h"
#include "athanor/base/error.h"
#include "athanor/base/in_threads.h"
#include "athanor/base/threads.h"
#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor {
namespace {

using Blocks = std::vector<std::shared_ptr<Storage>>;

constexpr uint64_t block_bytes = uint64_t{256} << 20;
constexpr int most_errors = 64;

struct Pattern {
  const char* name;
  int kind;  // see memory_test.kernel
  uint32_t value;
};

// Every bit is 0 and 1 at least once, and neighbouring bits differ and agree. In the last three, words whose
// addresses differ in one bit have different values, so that a broken address line is found.
constexpr Pattern patterns[] = {{"all zeros", 0, 0},           {"all ones", 0, 0xffffffff},
                                {"0x55555555", 0, 0x55555555}, {"0xaaaaaaaa", 0, 0xaaaaaaaa},
                                {"own address", 1, 0},         {"random", 2, 1},
                                {"random, inverted", 3, 1}};

// The same as in memory_test.kernel.
uint32_t word_of(const Pattern& pattern, uint64_t number) {
  if (pattern.kind == 0) return pattern.value;
  const uint32_t i = static_cast<uint32_t>(number) + static_cast<uint32_t>(number >> 32) * 0x9E3779B9U;
  if (pattern.kind == 1) return i;
  uint32_t x = i * 0x9E3779B1U + pattern.value;
  x = (x ^ (x >> 16)) * 0x85EBCA6BU;
  x = (x ^ (x >> 13)) * 0xC2B2AE35U;
  x ^= x >> 16;
  return pattern.kind == 2 ? x : ~x;
}

/// Fills and checks blocks, on the device itself.
class Worker {
 public:
  virtual ~Worker() = default;
  /// `first`: the number of the block's first word.
  virtual void fill(Storage& block, const Pattern& pattern, uint64_t first) = 0;
  virtual void check(Storage& block, const Pattern& pattern, uint64_t first, uint64_t number,
                     MemoryReport& report) = 0;
};

void add_error(MemoryReport& report, const Storage& block, uint64_t number, uint64_t word, uint32_t expected,
               uint32_t found, const Pattern& pattern) {
  if (report.errors.size() < most_errors)
    report.errors.push_back({reinterpret_cast<uintptr_t>(block.address()) + word * 4, number, word * 4,
                             expected, found, pattern.name});
}

class CpuWorker final : public Worker {
 public:
  void fill(Storage& block, const Pattern& pattern, uint64_t first) override {
    in_parts(block, [&](uint32_t* words, size_t from, size_t to, std::vector<uint64_t>&) {
      for (size_t i = from; i < to; ++i) words[i] = word_of(pattern, first + i);
    });
  }

  void check(Storage& block, const Pattern& pattern, uint64_t first, uint64_t number,
             MemoryReport& report) override {
    const auto wrong =
        in_parts(block, [&](const uint32_t* words, size_t from, size_t to, std::vector<uint64_t>& bad) {
          for (size_t i = from; i < to; ++i)
            if (words[i] != word_of(pattern, first + i)) bad.push_back(i);
        });
    report.wrong_words += wrong.size();
    for (const uint64_t i : wrong)
      add_error(report, block, number, i, word_of(pattern, first + i),
                static_cast<const uint32_t*>(block.address())[i], pattern);
  }

 private:
  template <class Work>
  static std::vector<uint64_t> in_parts(Storage& block, Work work) {
    const auto threads = static_cast<size_t>(cpu_threads());
    const size_t words = block.bytes() / 4;
    std::vector<std::vector<uint64_t>> wrong(threads);
    in_threads(threads, threads, [&](size_t t) {
      work(static_cast<uint32_t*>(block.address()), words * t / threads, words * (t + 1) / threads, wrong[t]);
    });
    std::vector<uint64_t> together;
    for (const auto& part : wrong) together.insert(together.end(), part.begin(), part.end());
    return together;
  }
};

class GpuWorker final : public Worker {
 public:
  GpuWorker(Device device, GpuAccess access)
      : access_(std::move(access)),
        queue_(queue_of(device)),
        report_(allocate(device, (4 * most_errors + 1) * sizeof(int32_t))) {}

  void fill(Storage& block, const Pattern& pattern, uint64_t first) override {
    const std::vector<Binding> buffers{{&block, 0}};
    kernel("memory_fill", block, pattern, first, 1).kernel->enqueue(queue_, buffers);
    queue_.finish();
  }

  void check(Storage& block, const Pattern& pattern, uint64_t first, uint64_t number,
             MemoryReport& report) override {
    std::vector<int32_t> said(4 * most_errors + 1);
    report_->write(said.data(), 0, said.size() * sizeof(int32_t));
    const std::vector<Binding> buffers{{&block, 0}, {report_.get(), 0}};
    kernel("memory_check", block, pattern, first, 2).kernel->enqueue(queue_, buffers);
    queue_.finish();
    report_->read(said.data(), 0, said.size() * sizeof(int32_t));
    const auto wrong = static_cast<uint32_t>(said[0]);
    report.wrong_words += wrong;
    for (size_t i = 0; i < std::min<size_t>(wrong, most_errors); ++i)
      add_error(report, block, number,
                static_cast<uint64_t>(static_cast<uint32_t>(said[4 * i + 1])) |
                    static_cast<uint64_t>(static_cast<uint32_t>(said[4 * i + 2])) << 32,
                static_cast<uint32_t>(said[4 * i + 3]), static_cast<uint32_t>(said[4 * i + 4]), pattern);
  }

 private:
  Candidate kernel(const std::string& name, const Storage& block, const Pattern& pattern, uint64_t first,
                   int buffers) {
    const int64_t group = std::min(access_.traits.grain->side_by_side, access_.traits.max_group_size);
    const auto words = static_cast<int64_t>(block.bytes() / 4);
    Defines defines;
    // A program has one kernel: programs are kept by their text.
    defines.set("FILL", int64_t{name == "memory_fill" ? 1 : 0});
    defines.set("KIND", int64_t{pattern.kind})
        .set("PATTERN", fmt::format("{}u", pattern.value))
        .set("FIRST", static_cast<int64_t>(first))
        .set("COUNT", words)
        .set("MOST", int64_t{most_errors});
    const int64_t groups = std::clamp<int64_t>(words / group, 1, int64_t{access_.traits.compute_units} * 32);
    defines.set("GROUPS", groups);
    GpuLaunch launch;
    launch.name = name;
    launch.source = defines.before(std::string(embedded_file("athanor/examine/memory_test.kernel")));
    launch.groups = {groups, 1, 1};
    launch.group_size = {group, 1, 1};
    for (int i = 0; i < buffers; ++i) launch.arguments.push_back({i, 0});
    return access_.make({name, {}, 0, {launch}});
  }

  GpuAccess access_;
  Queue& queue_;
  std::shared_ptr<Storage> report_;
};

Blocks take_memory(Device device, const std::optional<GpuAccess>& access, const MemoryTestOptions& options) {
  uint64_t wanted = static_cast<uint64_t>(options.share * static_cast<double>(info_of(device).memory_bytes));
  // Other programs use the host's memory too: testing half of it would stop the machine.
  if (info_of(device).kind == "cpu") wanted = std::min(wanted, uint64_t{1} << 30);
  if (options.most_bytes > 0) wanted = std::min(wanted, options.most_bytes);
  uint64_t each = block_bytes;
  if (access) each = std::min(each, access->largest_buffer);
  Blocks blocks;
  for (uint64_t had = 0; had + 4096 <= wanted;) {
    const uint64_t bytes = std::min(each, wanted - had) / 4096 * 4096;
    try {
      blocks.push_back(allocate(device, bytes));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory || blocks.empty()) throw;
      break;  // all that there is
    }
    had += bytes;
  }
  return blocks;
}

}  // namespace

MemoryReport test_memory(Device device, const MemoryTestOptions& options) {
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto access = gpu_access(device);
  const Blocks blocks = take_memory(device, access, options);
  std::unique_ptr<Worker> worker;
  if (access)
    worker = std::make_unique<GpuWorker>(device, *access);
  else
    worker = std::make_unique<CpuWorker>();
  MemoryReport report;
  for (const auto& block : blocks) report.bytes += block->bytes();
  do {
    // Writes a pattern to all blocks before it reads the first, so that caches cannot answer instead of the
    // memory.
    const Pattern& pattern = patterns[static_cast<size_t>(report.passes) % std::size(patterns)];
    const auto each = [&](auto work) {
      uint64_t first = options.first_word;
      for (uint64_t i = 0; i < blocks.size(); ++i) {
        if (options.progress)
          options.progress(fmt::format("pass {}, {}", report.passes + 1, pattern.name), seconds());
        work(*blocks[i], first, i);
        first += blocks[i]->bytes() / 4;
      }
    };
    each([&](Storage& block, uint64_t first, uint64_t) { worker->fill(block, pattern, first); });
    if (options.disturb) options.disturb(blocks);
    each(
        [&](Storage& block, uint64_t first, uint64_t i) { worker->check(block, pattern, first, i, report); });
    report.bytes_checked += report.bytes;
    ++report.passes;
  } while (seconds() < options.seconds);
  report.seconds = seconds();
  return report;
}

}  // namespace athanor
