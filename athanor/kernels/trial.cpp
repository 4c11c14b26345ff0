#include "athanor/kernels/trial.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "athanor/base/ceil_div.h"
#include "athanor/base/in_threads.h"
#include "athanor/base/philox.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/finish_by_loop.h"
#include "athanor/kernels/prologue.h"
#include "athanor/kernels/repeated_numbers.h"
#include "athanor/kernels/row_pitch.h"

namespace athanor {
namespace {

// The elements of memory that an operand is given. Blocked ones have no strides.
int64_t reach_of(const OperandDesc& operand) { return std::max(operand.reach(), operand.shape.size()); }

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

int64_t place_of(const OperandDesc& operand, int64_t flat) {
  int64_t place = 0;
  for (int axis = operand.shape.rank(); axis-- > 0;) {
    place += flat % operand.shape[axis] * operand.strides[static_cast<size_t>(axis)];
    flat /= operand.shape[axis];
  }
  return place;
}

// The same numbers in the order of the operand's indices.
HostArray in_order(const HostArray& numbers, const OperandDesc& operand) {
  HostArray ordered(operand.dtype, operand.shape);
  const size_t size = size_of(operand.dtype);
  const int64_t first = before_first(operand);
  for (int64_t i = 0; i < operand.shape.size(); ++i)
    std::memcpy(
        ordered.bytes.data() + static_cast<size_t>(i) * size,
        numbers.bytes.data() + static_cast<size_t>((first + place_of(operand, i)) % numbers.size()) * size,
        size);
  return ordered;
}

struct Distance {
  double largest = 0, difference = 0;
  bool unlike = false;  // one is not finite, and the other differs
};

template <class T>
double number_of(T value) {
  if constexpr (is_narrow_float(dtype_of<T>))
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

template <class T>
Distance distance_of(std::span<const T> a, std::span<const T> b) {
  Distance distance;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = number_of(a[i]), y = number_of(b[i]);
    if (!std::isfinite(x) && (std::isnan(x) ? std::isnan(y) : x == y)) continue;
    distance.unlike |= !std::isfinite(x) || !std::isfinite(y);
    distance.largest = std::max(distance.largest, std::abs(x));
    distance.difference = std::max(distance.difference, std::abs(x - y));
  }
  return distance;
}

float float_of(float value) { return value; }
float float_of(bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

// The same for finite numbers, many at once: without their sign, the bits of floats are in the order of the
// floats, and infinity and NaN come last. {} if there are such.
template <class T>
std::optional<Distance> distance_of_finite(std::span<const T> a, std::span<const T> b) {
  constexpr uint32_t magnitude = 0x7fff'ffff, infinity = 0x7f80'0000;
  uint32_t largest = 0, largest_b = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = float_of(a[i]), y = float_of(b[i]);
    largest = std::max(largest, std::bit_cast<uint32_t>(x) & magnitude);
    largest_b = std::max(largest_b, std::bit_cast<uint32_t>(y) & magnitude);
    difference = std::max(difference, std::bit_cast<uint32_t>(x - y) & magnitude);
  }
  if (std::max({largest, largest_b, difference}) >= infinity) return {};
  return Distance{std::bit_cast<float>(largest), std::bit_cast<float>(difference)};
}

template <class T>
Distance distance_of_part(std::span<const T> a, std::span<const T> b) {
  if constexpr (dtype_of<T> == DType::f32 || dtype_of<T> == DType::bf16)
    if (const auto quick = distance_of_finite(a, b)) return *quick;
  return distance_of(a, b);
}

Distance distance_of(const HostArray& a, const HostArray& b) {
  constexpr size_t of_a_thread = size_t{1} << 20, most_threads = 8;  // more threads would wait for memory
  return visit_dtype(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;  // a wrong bool may be any byte
    const auto x = a.as<Stored>(), y = b.as<Stored>();
    const size_t count =
        std::clamp<size_t>(x.size() / of_a_thread, 1,
                           std::min<size_t>(most_threads, std::max(1U, std::thread::hardware_concurrency())));
    std::vector<Distance> parts(count);
    in_threads(count, count, [&](size_t i) {
      const size_t from = x.size() * i / count, to = x.size() * (i + 1) / count;
      parts[i] = distance_of_part(x.subspan(from, to - from), y.subspan(from, to - from));
    });
    Distance all;
    for (const Distance& part : parts) {
      all.largest = std::max(all.largest, part.largest);
      all.difference = std::max(all.difference, part.difference);
      all.unlike |= part.unlike;
    }
    return all;
  });
}

// An output's memory without the elements between its rows, which mean nothing, from element `first` on.
void clear_gaps(const OperandDesc& output, int64_t first, std::span<std::byte> memory) {
  const int64_t row = output.shape[-1], pitch = output.strides[output.strides.size() - 2],
                size = static_cast<int64_t>(size_of(output.dtype)), end = std::ssize(memory) / size;
  for (int64_t gap = first / pitch * pitch + row - first; gap < end; gap += pitch) {
    const int64_t from = std::max<int64_t>(gap, 0), to = std::min(gap + pitch - row, end);
    if (to > from) std::memset(memory.data() + from * size, 0, static_cast<size_t>((to - from) * size));
  }
}

// The elements of an output that are compared. `read` copies its bytes from an offset on.
HostArray compared(const OperandDesc& output, const std::function<void(size_t, std::span<std::byte>)>& read) {
  constexpr int64_t parts = 3, of_a_part = int64_t{1} << 20;  // elements: a few milliseconds
  const bool gaps = has_gaps(output);
  const int64_t all = gaps ? output.reach() : output.shape.size(),
                size = static_cast<int64_t>(size_of(output.dtype));
  const auto read_part = [&](int64_t first, std::span<std::byte> to) {
    read(static_cast<size_t>(first * size), to);
    if (gaps) clear_gaps(output, first, to);
  };
  if (all <= parts * of_a_part) {
    HostArray whole(output.dtype, gaps ? Shape{all} : output.shape);
    read_part(0, whole.bytes);
    return whole;
  }
  HostArray some(output.dtype, {parts * of_a_part});
  for (int64_t i = 0; i < parts; ++i)
    read_part(i * (all - of_a_part) / (parts - 1),
              std::span(some.bytes)
                  .subspan(static_cast<size_t>(i * of_a_part * size), static_cast<size_t>(of_a_part * size)));
  return some;
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

/// The operand as the host's kernels of whole ops take it.
static OperandDesc row_major(OperandDesc operand) {
  operand.strides = contiguous_strides(operand.shape);
  return operand;
}

/// A dense result in the order of memory that `output` has.
static HostArray placed(const HostArray& result, const OperandDesc& output) {
  HostArray ordered(output.dtype, Shape{reach_of(output)});
  const int64_t row = output.strides.back() == 1 ? std::max<int64_t>(1, output.shape[-1]) : 1;  // together
  const auto size = size_of(output.dtype), bytes = static_cast<size_t>(row) * size;
  for (int64_t i = 0; i < output.shape.size(); i += row)
    std::memcpy(ordered.bytes.data() + static_cast<size_t>(place_of(output, i)) * size,
                result.bytes.data() + static_cast<size_t>(i) * size, bytes);
  return ordered;
}

/// Has an epilogue read the op's result row-major, not in the order of `result`. False if it cannot, because
/// a dimension of its loop is no part of one of the result's axes.
static bool read_in_rows(LoopProgram& epilogue, const OperandDesc& result) {
  const Ints rows = contiguous_strides(result.shape);
  for (LoopOperand& operand : epilogue.operands) {
    if (operand.buffer != 0) continue;
    for (size_t d = 0; d < epilogue.space.size(); ++d) {
      if (epilogue.space[d] == 1) continue;
      int64_t& stride = operand.strides[d];
      const auto is_part_of = [&](int axis) {
        const int64_t of_axis = result.strides[static_cast<size_t>(axis)], extent = result.shape[axis];
        return extent > 1 && stride % of_axis == 0 && of_axis * extent % (stride * epilogue.space[d]) == 0;
      };
      int axis = 0;
      while (axis < result.shape.rank() && !is_part_of(axis)) ++axis;
      if (axis == result.shape.rank()) return false;
      const auto a = static_cast<size_t>(axis);
      stride = stride / result.strides[a] * rows[a];
    }
  }
  return true;
}

TrialResults host_result(const KernelRequest& asked) {
  const Device host{};
  Backend& backend = backend_of(host);
  KernelRequest request = without_gaps(asked);
  const bool in_order = asked.op->prim == Prim::none && !backend.takes_strides(*asked.op);
  // An epilogue knows where its own operands lie.
  const bool turned = in_order && request.has_epilogue() && !request.output().dense();
  if (turned && !read_in_rows(request.epilogue, request.output())) return {};
  // So does the loop that computes an input.
  if (in_order && request.prologue && !request.inputs[request.prologue->input].dense()) return {};
  if (in_order) {
    for (size_t i = 0; i < request.own_inputs(); ++i)
      if (request.inputs[i].layout.block == 0) request.inputs[i] = row_major(request.inputs[i]);
    for (OperandDesc& output : request.outputs)
      if (!request.has_epilogue() && output.layout.block == 0) output = row_major(output);
  }
  const bool in_parts = request.has_epilogue() && (turned || !backend.takes_epilogue(host.index, request));
  const KernelRequest computed = without_prologue(request);
  KernelRequest problem = in_parts ? without_epilogue(computed) : computed;
  if (turned) problem.outputs[0] = row_major(problem.outputs[0]);
  auto candidates = backend.candidates(host.index, problem);
  if (candidates.empty()) return {};
  if (in_parts)
    candidates.front() =
        finish_by_loop(candidates.front(), backend.loop_kernel(host.index, request.epilogue), computed);
  if (request.prologue)
    candidates.front() = begin_by_loop(backend.loop_kernel(host.index, request.prologue->program),
                                       candidates.front(), request);
  TrialResults results = Trial(host, request, asked.inputs).whole_result(candidates.front());
  for (size_t o = 0; o < results.size(); ++o) {
    const OperandDesc& output = asked.outputs[o];
    const bool in_rows = in_order && !asked.has_epilogue() && output.layout.block == 0;
    const bool moves = (in_rows && !output.dense()) || has_gaps(output);
    const HostArray ordered = moves ? placed(results[o], output) : std::move(results[o]);
    results[o] = compared(output, [&](size_t first, std::span<std::byte> to) {
      std::memcpy(to.data(), ordered.bytes.data() + first, to.size());
    });
  }
  return results;
}

bool agree(const TrialResults& a, const TrialResults& b, const KernelRequest& request) {
  // Terms of a sum may cancel: then the sum is small beside the errors of its terms.
  constexpr double of_sums = 16;
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const OperandDesc& output = request.outputs[i];
    double allowed = request.rounding() * (output.shape.size() < request.output().shape.size() ? of_sums : 1);
    // What an epilogue computes of sums in another type, exact ones of integers among them.
    if (output.dtype != request.output().dtype && is_float(output.dtype))
      allowed += of_sums * of_sums * epsilon(DType::f32) + 2 * epsilon(output.dtype);
    const Distance distance = distance_of(a[i], b[i]);
    if (distance.unlike || distance.difference > allowed * distance.largest + 1e-12) return false;
  }
  return true;
}

}  // namespace athanor
