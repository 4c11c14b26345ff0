#include "athanor/kernels/alike.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/prologue.h"

namespace athanor {
namespace {

constexpr int64_t equal_up_to = 8;

// Assumed: timing finds a kernel that is this much faster than the choice of an alike problem.
constexpr double saved_share = 0.05;
// Assumed: the kernel will run this often.
constexpr double runs_to_come = 1000;
// The cost of timing one candidate: a fixed part, compiling if needed, and some runs.
constexpr double candidate_seconds = 0.01, compile_seconds = 0.3, runs_timed = 4;
// Shorter kernels are a small part of any step.
constexpr double small_problem = 2e-6;

int64_t extent_class(int64_t extent) {
  return extent <= equal_up_to ? extent : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
}

// The axes in the order of their strides; then those that are only repeated (stride 0).
std::string axis_order(const OperandDesc& operand) {
  std::vector<int> order, repeated;
  for (int axis = 0; axis < operand.shape.rank(); ++axis)
    if (operand.shape[axis] > 1)
      (operand.strides[static_cast<size_t>(axis)] == 0 ? repeated : order).push_back(axis);
  std::ranges::stable_sort(order, {}, [&](int axis) { return operand.strides[static_cast<size_t>(axis)]; });
  return fmt::format("{}|{}", fmt::join(order, ""), fmt::join(repeated, ""));
}

bool is_extent(std::string_view attribute) { return attribute.ends_with("shape"); }

}  // namespace

Work work_of(const KernelRequest& request) {
  Work work;
  const auto add = [&](const OperandDesc& operand) {
    work.bytes += static_cast<double>(operand.shape.size()) * static_cast<double>(size_of(operand.dtype));
  };
  for (const OperandDesc& input : request.inputs) add(input);
  for (const auto& output : request.outputs) add(output);
  work.flops = static_cast<double>(request.flops());
  return work;
}

std::string bucket_of(const KernelRequest& request) {
  std::string bucket = request.op->name;
  for (const Op* other : request.with) bucket += "+" + other->name;
  const auto add = [&](const OperandDesc& operand) {
    std::vector<int64_t> extents;
    for (const int64_t extent : operand.shape) extents.push_back(extent_class(extent));
    bucket += fmt::format(" {}[{}]", to_string(operand.dtype), fmt::join(extents, ","));
    bucket += operand.layout.block != 0 ? to_string(operand.layout) : axis_order(operand);
    if (operand.padding > 0) bucket += "+";  // read and written by whole vectors
  };
  for (const auto& input : request.inputs) add(input);
  for (const auto& output : request.outputs) add(output);
  Attrs attributes;
  for (const auto& [name, value] : request.attrs.entries())
    if (!is_extent(name)) attributes.set(name, value);
  bucket += " " + to_string(attributes);
  if (const std::string type = request.computes_in(); !type.empty()) bucket += " " + type;
  return bucket + fmt::format(" {}", fmt::join(epilogue_names(request), " ")) +
         fmt::format(" {}", fmt::join(prologue_names(request), " "));
}

bool worth_timing(const Prospect& problem) {
  if (problem.alike == 0)
    return problem.compiles || problem.least_seconds <= 0 || problem.least_seconds > small_problem;
  const double a_candidate =
      candidate_seconds + runs_timed * problem.seconds + (problem.compiles ? compile_seconds : 0);
  const double cost = static_cast<double>(problem.candidates) * a_candidate;
  return saved_share * runs_to_come * problem.seconds > cost * static_cast<double>(problem.alike);
}

}  // namespace athanor
