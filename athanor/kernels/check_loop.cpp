#include "athanor/kernels/check_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/graph/host_array.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuner.h"
#include "athanor/memory/limit.h"

namespace athanor {
namespace {

// What a loop is launched with: as far as its operands reach.
struct LoopBuffer {
  DType dtype = DType::u8;
  int64_t elements = 1;
  bool written = false;
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
    for (const auto* stores : {&loop.stores, &loop.epilogue_stores})
      for (const LoopStore& store : *stores) {
        const LoopOperand& operand = loop.operands[static_cast<size_t>(store.operand)];
        all[static_cast<size_t>(operand.buffer)].written = true;
      }
  }
  return all;
}

// More above zero than below, so that sums do not cancel out.
HostArray numbers(const LoopBuffer& buffer, uint32_t seed) {
  std::vector<double> values(static_cast<size_t>(buffer.elements));
  uint32_t state = seed;
  for (double& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<double>(state >> 8) / (1U << 24) * 1.5 - 0.5;
    if (!is_float(buffer.dtype)) value = std::floor(8 * value);
    if (buffer.dtype == DType::u8 || buffer.dtype == DType::b8) value = value > 0;
  }
  return from_doubles(buffer.dtype, {buffer.elements}, values);
}

// What the buffers that are written hold afterwards.
std::vector<std::vector<double>> results(Device device, const std::vector<LoopBuffer>& buffers,
                                         const std::vector<Candidate>& launches, uint32_t seed) {
  std::vector<std::shared_ptr<Storage>> memory;
  std::vector<Binding> bindings;
  size_t scratch = 1;
  for (const Candidate& launch : launches) scratch = std::max(scratch, launch.scratch_bytes);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const HostArray host = numbers(buffers[i], seed + static_cast<uint32_t>(i));
    memory.push_back(allocate(device, host.bytes.size()));
    memory.back()->write(host.bytes.data(), 0, host.bytes.size());
    bindings.push_back({memory.back().get(), 0});
  }
  memory.push_back(allocate(device, scratch));
  bindings.push_back({memory.back().get(), 0});
  for (const Candidate& launch : launches) launch.kernel->enqueue(queue_of(device), bindings);
  queue_of(device).finish();
  std::vector<std::vector<double>> all;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].written) continue;
    HostArray host(buffers[i].dtype, {buffers[i].elements});
    memory[i]->read(host.bytes.data(), 0, host.bytes.size());
    all.push_back(to_doubles(host));
  }
  return all;
}

std::string difference(const std::vector<double>& got, const std::vector<double>& expected, DType dtype) {
  double largest = 0;
  for (const double value : expected)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  // Floats of 8 bits may become neighbours, which are up to a quarter apart.
  const double share = size_of(dtype) == 1 ? 0.25 : size_of(dtype) < 4 ? 3e-2 : 1e-3;
  const double allowed = is_float(dtype) ? share * largest + 1e-12 : 0;
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])) ||
                      std::abs(got[i] - expected[i]) <= allowed;
    if (same) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong <= got.size() / 10'000) return {};
  return fmt::format("element {} of {} is {:.6g}, not {:.6g}", first, got.size(), got[first],
                     expected[first]);
}

std::string mismatch_of(Device device, const std::vector<LoopBuffer>& buffers,
                        const std::vector<Candidate>& host, const Candidate& candidate, uint32_t seed) {
  const auto expected = results(Device{}, buffers, host, seed),
             got = results(device, buffers, {candidate}, seed);
  size_t written = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].written) continue;
    const std::string wrong = difference(got[written], expected[written], buffers[i].dtype);
    if (!wrong.empty()) return fmt::format("buffer {}: {}", i, wrong);
    ++written;
  }
  return {};
}

}  // namespace

std::string loop_mismatch(Device device, const std::vector<LoopProgram>& loops, const Candidate& candidate) {
  const Device host{};
  const std::vector<LoopBuffer> buffers = buffers_of(loops);
  std::vector<Candidate> reference;
  for (const LoopProgram& loop : loops) {
    LoopProgram whole = loop;
    whole.buffers = static_cast<int>(buffers.size());
    reference.push_back(backend_of(host).loop_kernel(host.index, whole));
  }
  std::string wrong;
  for (const uint32_t seed : {12345U, 54321U}) {
    wrong = mismatch_of(device, buffers, reference, candidate, seed);
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
  if (needed > memory_left(device)) return;  // it stays to be checked
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
