#include "athanor/kernels/check_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/os/memory.h"
#include "athanor/graph/host_array.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/repeated_numbers.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuner.h"
#include "athanor/memory/limit.h"

namespace athanor {
namespace {

// A buffer that a loop is launched with, as large as its operands reach.
struct LoopBuffer {
  DType dtype = DType::u8;
  int64_t elements = 1;
};

std::vector<LoopBuffer> buffers_of(const std::vector<LoopProgram>& loops) {
  std::vector<LoopBuffer> all;
  for (const LoopProgram& loop : loops) {
    all.resize(std::max(all.size(), static_cast<size_t>(loop.buffers)));
    for (const LoopOperand& operand : loop.operands) {
      int64_t last = operand.offset;
      for (size_t d = 0; d < loop.space.size(); ++d)
        last += std::max<int64_t>(0, operand.strides[d] * (loop.space[d] - 1));
      LoopBuffer& buffer = all[static_cast<size_t>(operand.buffer)];
      buffer.dtype = operand.dtype;
      buffer.elements = std::max(buffer.elements, last + 1);
    }
  }
  return all;
}

// Random numbers. More are above zero than below, so that sums do not cancel out.
HostArray numbers(const LoopBuffer& buffer, uint32_t seed) {
  std::vector<double> values(static_cast<size_t>(std::min(buffer.elements, number_period)));
  uint32_t state = seed;
  for (double& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<double>(state >> 8) / (1U << 24) * 1.5 - 0.5;
    if (!is_float(buffer.dtype)) value = std::floor(8 * value);
    if (buffer.dtype == DType::u8 || buffer.dtype == DType::b8) value = value > 0;
  }
  return from_doubles(buffer.dtype, {static_cast<int64_t>(values.size())}, values);
}

size_t bytes_of(const LoopBuffer& buffer) {
  return static_cast<size_t>(buffer.elements) * size_of(buffer.dtype);
}

// The part of a loop that begins at index `from` and has the extents `space`.
LoopProgram part_of(const LoopProgram& loop, const Ints& from, const Ints& space) {
  LoopProgram part = loop;
  part.space = space;
  const auto shift = [&](int64_t& offset, const Ints& strides) {
    for (size_t d = 0; d < from.size(); ++d) offset += from[d] * strides[d];
  };
  for (LoopOperand& operand : part.operands) shift(operand.offset, operand.strides);
  for (auto* steps : {&part.body, &part.epilogue})
    for (LoopStep& step : *steps)
      if (step.kind == LoopStep::Kind::index) shift(step.index_offset, step.index_strides);
  return part;
}

// The parts of a loop that the host computes: the whole loop, or the begin, middle and end of a long one
// along the longest dimensions that are not reduced. The parts have no element in common.
std::vector<LoopProgram> parts_of(const LoopProgram& loop) {
  constexpr int64_t most = int64_t{1} << 19, parts = 3;  // elements; a few milliseconds
  if (loop.iterations() <= most) return {loop};
  Ints space = loop.space;
  std::vector<bool> whole = loop.reduced;
  for (int64_t left = loop.iterations(); left > most / parts;) {
    std::optional<size_t> longest;
    for (size_t d = 0; d < space.size(); ++d)
      if (!whole[d] && space[d] >= parts && (!longest || space[d] > space[*longest])) longest = d;
    if (!longest) break;
    int64_t& extent = space[*longest];
    left /= extent;
    extent = std::clamp<int64_t>(most / parts / left, 1, extent / parts);
    left *= extent;
    whole[*longest] = true;
  }
  if (space == loop.space) return {loop};
  std::vector<LoopProgram> all;
  for (int64_t place = 0; place < parts; ++place) {
    Ints from(space.size());
    for (size_t d = 0; d < space.size(); ++d) from[d] = place * (loop.space[d] - space[d]) / (parts - 1);
    all.push_back(part_of(loop, from, space));
  }
  return all;
}

// The elements of an operand, in the order of the loop's index. `results`: index 0 along reduced dimensions.
std::vector<int64_t> elements_of(const LoopProgram& loop, const LoopOperand& operand, bool results) {
  std::vector<int64_t> all{operand.offset};
  for (size_t d = 0; d < loop.space.size(); ++d) {
    if (results && loop.reduced[d]) continue;
    std::vector<int64_t> more;
    more.reserve(all.size() * static_cast<size_t>(loop.space[d]));
    for (const int64_t element : all)
      for (int64_t i = 0; i < loop.space[d]; ++i) more.push_back(element + i * operand.strides[d]);
    all = std::move(more);
  }
  return all;
}

struct Run {
  int64_t first, last;
};

// The ranges of memory in which these elements lie. They include small gaps.
std::vector<Run> runs_of(const LoopProgram& loop, const LoopOperand& operand, bool results) {
  constexpr int64_t gap = 16'384;  // reading this many elements takes no longer than another read
  int64_t first = operand.offset;
  std::vector<std::pair<int64_t, int64_t>> steps;  // strides and how often, sorted by the stride
  for (size_t d = 0; d < loop.space.size(); ++d) {
    if (results && loop.reduced[d]) continue;
    if (loop.space[d] == 0) return {};
    const int64_t stride = operand.strides[d], times = loop.space[d] - 1;
    if (stride < 0) first += stride * times;
    if (stride != 0 && times > 0) steps.emplace_back(std::abs(stride), times);
  }
  std::ranges::sort(steps);
  int64_t length = 1;
  size_t within = 0;
  for (; within < steps.size() && steps[within].first <= length + gap; ++within)
    length += steps[within].first * steps[within].second;
  std::vector<Run> runs{{first, first + length - 1}};
  for (; within < steps.size(); ++within) {
    const std::vector<Run> before = runs;
    for (int64_t i = 1; i <= steps[within].second; ++i)
      for (const Run& run : before)
        runs.push_back({run.first + i * steps[within].first, run.last + i * steps[within].first});
  }
  return runs;
}

HostArray gathered(const Storage& host, const std::vector<int64_t>& elements, DType dtype) {
  HostArray array(dtype, {static_cast<int64_t>(elements.size())});
  const size_t size = size_of(dtype);
  const auto* memory = static_cast<const std::byte*>(host.address());
  for (size_t i = 0; i < elements.size(); ++i)
    std::memcpy(array.bytes.data() + i * size, memory + static_cast<size_t>(elements[i]) * size, size);
  return array;
}

std::string difference(const std::vector<double>& got, const std::vector<double>& expected,
                       const std::vector<int64_t>& elements, const LoopBuffer& buffer) {
  double largest = 0;
  for (const double value : expected)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  // 8-bit floats may be rounded to neighbouring values, which are up to a quarter apart.
  const size_t size = size_of(buffer.dtype);
  const double share = size == 1 ? 0.25 : size < 4 ? 3e-2 : 1e-3;
  const double allowed = is_float(buffer.dtype) ? share * largest + 1e-12 : 0;
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])) ||
                      std::abs(got[i] - expected[i]) <= allowed;
    if (same) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong <= got.size() / 10'000) return {};
  return fmt::format("element {} of {} is {:.6g}, not {:.6g}", elements[first], buffer.elements, got[first],
                     expected[first]);
}

// Runs a kernel in a device's memory, and parts of its loops on the host.
class LoopCheck {
 public:
  LoopCheck(Device device, const std::vector<LoopBuffer>& buffers, const Candidate& candidate, uint32_t seed)
      : buffers_(buffers) {
    std::vector<Binding> bindings;
    for (const LoopBuffer& buffer : buffers_) {
      numbers_.push_back(numbers(buffer, seed + static_cast<uint32_t>(numbers_.size())));
      got_.push_back(allocate(device, bytes_of(buffer)));
      fill_repeating(*got_.back(), numbers_.back(), bytes_of(buffer));
      for (auto* memory : {&read_, &expected_}) memory->push_back(allocate(Device{}, bytes_of(buffer)));
      bindings.push_back({got_.back().get(), 0});
    }
    const auto scratch = allocate(device, std::max<size_t>(1, candidate.scratch_bytes));
    bindings.push_back({scratch.get(), 0});
    candidate.kernel->enqueue(queue_of(device), bindings);
    queue_of(device).finish();
  }

  /// How the results of the part differ from the host's; "" if they agree. `earlier`: buffers that earlier
  /// loops of the kernel have written, from whose results on the device the host goes on.
  std::string mismatch(LoopProgram part, const std::set<int>& earlier) {
    part.buffers = static_cast<int>(buffers_.size());
    std::vector<Binding> bindings;
    for (const auto& memory : expected_) bindings.push_back({memory.get(), 0});
    for (const LoopOperand& operand : part.operands) {
      const auto b = static_cast<size_t>(operand.buffer);
      for (const Run& run : runs_of(part, operand, false))
        if (earlier.contains(operand.buffer))
          copy_result(operand, run, *expected_[b]);
        else
          fill_repeating(expected_[b]->address(), numbers_[b], run.first, run.last);
    }
    const Candidate host = backend_of(Device{}).loop_kernel(0, part);
    const auto scratch = allocate(Device{}, std::max<size_t>(1, host.scratch_bytes));
    bindings.push_back({scratch.get(), 0});
    host.kernel->enqueue(queue_of(Device{}), bindings);
    queue_of(Device{}).finish();
    for (const bool results : {false, true})
      for (const LoopStore& store : results ? part.epilogue_stores : part.stores)
        if (std::string wrong = mismatch_of(part, part.operands[static_cast<size_t>(store.operand)], results);
            !wrong.empty())
          return wrong;
    return {};
  }

 private:
  void copy_result(const LoopOperand& operand, const Run& run, Storage& to) const {
    const size_t size = size_of(operand.dtype);
    got_[static_cast<size_t>(operand.buffer)]->read(
        static_cast<std::byte*>(to.address()) + static_cast<size_t>(run.first) * size,
        static_cast<size_t>(run.first) * size, static_cast<size_t>(run.last - run.first + 1) * size);
  }

  std::string mismatch_of(const LoopProgram& part, const LoopOperand& operand, bool results) const {
    const auto b = static_cast<size_t>(operand.buffer);
    const LoopBuffer& buffer = buffers_[b];
    const std::vector<int64_t> elements = elements_of(part, operand, results);
    for (const Run& run : runs_of(part, operand, results)) copy_result(operand, run, *read_[b]);
    const std::string wrong =
        difference(to_doubles(gathered(*read_[b], elements, buffer.dtype)),
                   to_doubles(gathered(*expected_[b], elements, buffer.dtype)), elements, buffer);
    return wrong.empty() ? wrong : fmt::format("buffer {}: {}", b, wrong);
  }

  const std::vector<LoopBuffer>& buffers_;
  std::vector<HostArray> numbers_;
  std::vector<std::shared_ptr<Storage>> got_;              // on the device
  std::vector<std::shared_ptr<Storage>> read_, expected_;  // on the host; of large ones, few pages are used
};

}  // namespace

std::string loop_mismatch(Device device, const std::vector<LoopProgram>& loops, const Candidate& candidate) {
  const std::vector<LoopBuffer> buffers = buffers_of(loops);
  std::string wrong;
  for (const uint32_t seed : {12345U, 54321U}) {
    LoopCheck check(device, buffers, candidate, seed);
    wrong.clear();
    std::set<int> earlier;
    for (const LoopProgram& loop : loops) {
      for (LoopProgram& part : parts_of(loop))
        if (wrong.empty()) wrong = check.mismatch(std::move(part), earlier);
      for (const auto* stores : {&loop.stores, &loop.epilogue_stores})
        for (const LoopStore& store : *stores)
          earlier.insert(loop.operands[static_cast<size_t>(store.operand)].buffer);
    }
    if (wrong.empty()) break;
  }
  return wrong;
}

void require_right_loop(Device device, const std::vector<LoopProgram>& loops, const Candidate& candidate,
                        const std::string& what) {
  if (device == Device{} || provider_of(device).hidden() || trusting()) return;
  std::string key = examination_key(device);
  for (const LoopProgram& loop : loops) key += '|' + to_string(loop);
  KernelCache& cache = KernelCache::instance();
  if (cache.is_checked(key)) return;
  uint64_t needed = candidate.scratch_bytes;
  for (const LoopBuffer& buffer : buffers_of(loops))
    needed += static_cast<uint64_t>(buffer.elements) * size_of(buffer.dtype);
  constexpr int on_the_host = 2;  // the expected results, and the device's
  const os::MemorySize host = os::memory_size();
  // Without enough memory the loop is not checked now, but another time.
  if (needed > memory_left(device) || (host.total > 0 && on_the_host * needed > host.available)) return;
  const std::string wrong = loop_mismatch(device, loops, candidate);
  if (!wrong.empty())
    throw Error(ErrorCode::device,
                fmt::format("{} ({}) computes the loop {} wrongly: {}", to_string(device),
                            info_of(device).name, what, wrong),
                {},
                "Use another device (--device cpu), or another driver for this one. --trust (or "
                "ATHANOR_TRUST=1) uses it all the same");
  cache.store_checked(key);
}

}  // namespace athanor
