#include "athanor/kernels/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "athanor/base/philox.h"
#include "athanor/graph/host_array.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/finish_by_loop.h"

namespace athanor {
namespace {

// Random numbers below `bound` for the operand of this number, over all the elements that its strides reach.
// Operands with numbers in common would hide errors: in a sum of squares the errors of products average out,
// while the squares add up.
HostArray numbers_for(size_t number, const OperandDesc& operand, double bound) {
  int64_t last = 0;
  for (int i = 0; i < operand.shape.rank(); ++i)
    last += std::max<int64_t>(0, operand.shape[i] - 1) * std::abs(operand.strides[static_cast<size_t>(i)]);
  const int64_t count = std::max(last + 1, operand.shape.size());
  std::vector<double> values(static_cast<size_t>(count));
  const std::array key = words_of(number);
  for (size_t i = 0; i < values.size();) {
    const std::array counter = words_of(i);
    for (const uint32_t word : philox4x32({counter[0], counter[1], 0, 0}, key)) {
      if (i == values.size()) break;
      values[i++] = 2 * bound * (static_cast<double>(word >> 8) / (1 << 24) - 0.5);
    }
  }
  return from_doubles(operand.dtype, {count}, values);
}

}  // namespace

static int64_t place_of(const OperandDesc& operand, int64_t flat) {
  int64_t place = 0;
  for (int axis = operand.shape.rank(); axis-- > 0;) {
    place += flat % operand.shape[axis] * operand.strides[static_cast<size_t>(axis)];
    flat /= operand.shape[axis];
  }
  return place;
}

/// The same numbers in the order of their indices.
static HostArray in_order(const HostArray& numbers, const OperandDesc& operand) {
  HostArray ordered(operand.dtype, operand.shape);
  const size_t size = size_of(operand.dtype);
  for (int64_t i = 0; i < operand.shape.size(); ++i)
    std::memcpy(ordered.bytes.data() + static_cast<size_t>(i) * size,
                numbers.bytes.data() + static_cast<size_t>(place_of(operand, i)) * size, size);
  return ordered;
}

Trial::Trial(Device device, const KernelRequest& request, const std::vector<OperandDesc>& numbered_as)
    : device_(device), results_(request.outputs) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const OperandDesc& input = request.inputs[i];
    const bool differs = i < numbered_as.size() && numbered_as[i].strides != input.strides;
    const bool small = request.op->fed_back == i;
    const double bound = small ? 1 / std::sqrt(static_cast<double>(input.shape[-1])) : 0.5;
    const HostArray host = differs ? in_order(numbers_for(i, numbered_as[i], bound), numbered_as[i])
                                   : numbers_for(i, input, bound);
    inputs_.push_back(allocate(device, std::max<size_t>(1, host.bytes.size())));
    inputs_.back()->write(host.bytes.data(), 0, host.bytes.size());
  }
  for (const auto& output : request.outputs)
    outputs_.push_back(
        allocate(device, std::max<size_t>(1, HostArray(output.dtype, output.shape).bytes.size())));
}

std::vector<double> Trial::result(const Candidate& candidate) {
  launch(candidate);
  queue_of(device_).finish();
  std::vector<double> all;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    HostArray host(results_[i].dtype, results_[i].shape);
    outputs_[i]->read(host.bytes.data(), 0, host.bytes.size());
    const std::vector<double> one = to_doubles(host);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

Samples Trial::time(const Candidate& candidate, double limit, double share) {
  return take_samples(
      [&](int runs) {
        return queue_of(device_).timed([&] {
          for (int i = 0; i < runs; ++i) launch(candidate);
        });
      },
      limit, share);
}

void Trial::launch(const Candidate& candidate) {
  if (!scratch_ || scratch_->bytes() < candidate.scratch_bytes)
    scratch_ = allocate(device_, std::max<size_t>(1, candidate.scratch_bytes));
  std::vector<Binding> buffers;
  for (const auto& input : inputs_) buffers.push_back({input.get(), 0});
  for (const auto& output : outputs_) buffers.push_back({output.get(), 0});
  buffers.push_back({scratch_.get(), 0});
  candidate.kernel->enqueue(queue_of(device_), buffers);
}

/// The operand as kernels of the host's whole ops take it.
static OperandDesc row_major(OperandDesc operand) {
  operand.strides = contiguous_strides(operand.shape);
  return operand;
}

std::vector<double> host_result(const KernelRequest& asked) {
  const Device host{};
  Backend& backend = backend_of(host);
  KernelRequest request = asked;
  if (asked.op->prim == Prim::none && !backend.takes_strides(*asked.op))
    for (auto* list : {&request.inputs, &request.outputs})
      for (OperandDesc& operand : *list)
        if (operand.layout.block == 0) operand = row_major(operand);
  const bool in_parts = request.has_epilogue() && !backend.takes_epilogue(host.index, request);
  const KernelRequest problem = in_parts ? without_epilogue(request) : request;
  auto candidates = backend.candidates(host.index, problem);
  if (candidates.empty()) return {};
  if (in_parts)
    candidates.front() =
        finish_by_loop(candidates.front(), backend.loop_kernel(host.index, request.epilogue), request);
  std::vector<double> result = Trial(host, request, asked.inputs).result(candidates.front());
  // In the order of memory that was asked for.
  size_t first = 0;
  for (const OperandDesc& output : asked.outputs) {
    const auto count = static_cast<size_t>(output.shape.size());
    if (output.layout.block == 0 && !output.dense()) {
      const std::vector<double> one(result.begin() + static_cast<std::ptrdiff_t>(first),
                                    result.begin() + static_cast<std::ptrdiff_t>(first + count));
      for (size_t i = 0; i < count; ++i)
        result[first + static_cast<size_t>(place_of(output, static_cast<int64_t>(i)))] = one[i];
    }
    first += count;
  }
  return result;
}

bool agree(const std::vector<double>& a, const std::vector<double>& b, const KernelRequest& request) {
  // Terms of a sum may cancel: then it is small beside the errors of its terms.
  constexpr double of_sums = 16;
  size_t i = 0;
  for (const OperandDesc& output : request.outputs) {
    const double allowed =
        request.rounding() * (output.shape.size() < request.output().shape.size() ? of_sums : 1);
    double largest = 0, difference = 0;
    for (const size_t end = std::min(a.size(), i + static_cast<size_t>(output.shape.size())); i < end; ++i) {
      if (!std::isfinite(a[i]) && (std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i])) continue;
      if (!std::isfinite(b[i])) return false;
      largest = std::max(largest, std::abs(a[i]));
      difference = std::max(difference, std::abs(a[i] - b[i]));
    }
    if (difference > allowed * largest + 1e-12) return false;
  }
  return true;
}

}  // namespace athanor
