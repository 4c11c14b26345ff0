#include "athanor/kernels/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "athanor/base/ceil_div.h"
#include "athanor/base/philox.h"
#include "athanor/kernels/operand_places.h"
#include "athanor/kernels/prologue.h"
#include "athanor/kernels/repeated_numbers.h"

namespace athanor {
namespace {

// How many elements lie before an operand's first one, because strides are negative. The first one lies at a
// whole vector, as kernels take it.
int64_t before_first(const OperandDesc& operand) {
  int64_t elements = 0;
  for (int axis = 0; axis < operand.shape.rank() && operand.shape.size() > 0; ++axis)
    elements -= std::min<int64_t>(0, (operand.shape[axis] - 1) * operand.strides[static_cast<size_t>(axis)]);
  const auto size = static_cast<int64_t>(size_of(operand.dtype));
  return ceil_div(elements * size, OperandDesc::whole_vectors) * OperandDesc::whole_vectors / size;
}

// One period of random numbers from -bound to bound for an operand. `number` is the operand's index, so that
// each has other numbers. Equal operands would hide errors: in a sum of squares the errors of products
// average out, while the squares add up.
HostArray numbers_for(size_t number, const OperandDesc& operand, double bound) {
  std::vector<double> values(static_cast<size_t>(std::min(reach_of(operand), number_period)));
  const std::array key = words_of(number);
  for (size_t i = 0; i < values.size();) {
    const std::array counter = words_of(i);
    for (const uint32_t word : philox4x32({counter[0], counter[1], 0, 0}, key)) {
      if (i == values.size()) break;
      values[i++] = 2 * bound * (static_cast<double>(word >> 8) / (1 << 24) - 0.5);
    }
  }
  return from_doubles(operand.dtype, {static_cast<int64_t>(values.size())}, values);
}

// Ends of equal groups of `rows` rows in all. Where the ends lie unusually, all groups but the first are
// empty.
HostArray ends_of_groups(const OperandDesc& operand, int64_t rows) {
  const int64_t reach = reach_of(operand), groups = operand.shape.size(),
                stride = operand.shape.rank() == 1 ? operand.strides[0] : 0;
  const bool in_order = stride > 0 && groups > 0 && reach <= number_period;
  std::vector<double> values(static_cast<size_t>(std::min(reach, number_period)), static_cast<double>(rows));
  for (size_t i = 0; in_order && i < values.size(); ++i) {
    const int64_t group = static_cast<int64_t>(i) / stride, end = rows * (group + 1) / groups;
    values[i] = static_cast<double>(end);
  }
  return from_doubles(operand.dtype, {static_cast<int64_t>(values.size())}, values);
}

// The same numbers in the order of the operand's indices.
HostArray in_order(const HostArray& numbers, const OperandDesc& operand) {
  HostArray ordered(operand.dtype, operand.shape);
  const size_t size = size_of(operand.dtype);
  const int64_t first = before_first(operand);
  for (int64_t i = 0; i < operand.shape.size(); ++i)
    std::memcpy(ordered.bytes.data() + static_cast<size_t>(i) * size,
                numbers.bytes.data() +
                    static_cast<size_t>((first + element_offset(operand, i)) % numbers.size()) * size,
                size);
  return ordered;
}

}  // namespace

Trial::Trial(Device device, const KernelRequest& request, const std::vector<OperandDesc>& numbered_as)
    : device_(device), results_(request.outputs) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const OperandDesc& input = request.inputs[i];
    const bool differs = i < numbered_as.size() && numbered_as[i].strides != input.strides;
    const bool small = request.op->fed_back == i;
    const double bound = small ? 1 / std::sqrt(static_cast<double>(input.shape[-1])) : 0.5;
    const OperandDesc& as = differs ? numbered_as[i] : input;
    HostArray numbers = request.op->group_ends == i ? ends_of_groups(as, request.inputs[0].shape[0])
                                                    : numbers_for(i, as, bound);
    if (differs) numbers = in_order(numbers, numbered_as[i]);
    const int64_t before = before_first(input);
    first_.push_back(before * static_cast<int64_t>(size_of(input.dtype)));
    const size_t bytes =
        static_cast<size_t>(before + (differs ? numbers.size() : reach_of(input))) * size_of(input.dtype);
    inputs_.push_back(allocate(device, std::max<size_t>(1, bytes)));
    fill_repeating(*inputs_.back(), numbers, bytes);
  }
  if (request.prologue) compute_input(*request.prologue);
  for (const auto& output : request.outputs)
    outputs_.push_back(
        allocate(device, std::max<size_t>(1, static_cast<size_t>(reach_of(output)) * size_of(output.dtype))));
}

/// Kernels that compute a prologue and those for which a loop did it must read the same numbers.
void Trial::compute_input(const Prologue& prologue) {
  const Candidate loop = backend_of(device_).loop_kernel(device_.index, prologue.program);
  scratch_ = allocate(device_, std::max<size_t>(1, loop.scratch_bytes));
  std::vector<Binding> buffers;
  for (size_t i = inputs_.size() - prologue.inputs(); i < inputs_.size(); ++i)
    buffers.push_back({inputs_[i].get(), first_[i]});
  buffers.push_back({inputs_[prologue.input].get(), first_[prologue.input]});
  buffers.push_back({scratch_.get(), 0});
  loop.kernel->enqueue(queue_of(device_), buffers);
}

TrialResults Trial::result(const Candidate& candidate) {
  run(candidate);
  TrialResults all;
  for (size_t i = 0; i < outputs_.size(); ++i)
    all.push_back(compared(results_[i], [&](size_t first, std::span<std::byte> to) {
      outputs_[i]->read(to.data(), first, to.size());
    }));
  return all;
}

TrialResults Trial::whole_result(const Candidate& candidate) {
  run(candidate);
  TrialResults all;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    HostArray& host = all.emplace_back(results_[i].dtype, results_[i].shape);
    outputs_[i]->read(host.bytes.data(), 0, host.bytes.size());
  }
  return all;
}

void Trial::run(const Candidate& candidate) {
  launch(candidate);
  queue_of(device_).finish();
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
  for (size_t i = 0; i < inputs_.size(); ++i) buffers.push_back({inputs_[i].get(), first_[i]});
  for (const auto& output : outputs_) buffers.push_back({output.get(), 0});
  buffers.push_back({scratch_.get(), 0});
  candidate.kernel->enqueue(queue_of(device_), buffers);
}

}  // namespace athanor
