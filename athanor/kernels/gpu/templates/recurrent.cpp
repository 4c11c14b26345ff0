// lstm, gru and their gradients: one launch for all times, whereas the decomposition has several for each.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/recurrent_kernel.h"

namespace athanor::gpu {
namespace {

// With more, too few groups would share the work. A device with less has room for smaller states only.
constexpr int64_t most_local_bytes = 32 * 1024;

Recurrence recurrence_of(const KernelRequest& request) {
  const std::string& op = request.op->name;
  const OperandDesc& y = request.output();
  const bool lstm = op.starts_with("lstm"), gradient = op.ends_with("_grad");
  const int64_t features = gradient ? 5 : lstm ? 2 : 1;  // of the result, in blocks of h
  return {lstm, gradient, y.shape[0], y.shape[1], y.shape[2] / features, y.dtype};
}

/// The local memory of a group of this many examples.
int64_t state_bytes(const Recurrence& r, int64_t rows) {
  const int64_t one = rows * r.h * r.real();
  return (r.gradient ? local_array(one) + local_array(r.gates() * one) : local_array(2 * one)) +
         (r.lstm ? local_array(one) : 0);
}

bool serves_recurrence(std::span<const TensorType> inputs, const TensorType& y, const Attrs& attrs,
                       const GpuTraits& traits) {
  const Shape& weight = inputs[inputs[1].shape.rank() == 2 ? 1 : 2].shape;
  const int64_t one = weight[1] * static_cast<int64_t>(y.dtype == DType::f64 ? 8 : 4);
  const int64_t most = 2 * local_array(one) + local_array(4 * one);  // of all four
  return serves_floats(inputs, y, attrs, traits) && most <= std::min(most_local_bytes, traits.local_bytes);
}

GpuCandidate make_recurrence(const KernelRequest& request, const GpuTraits& traits, int64_t rows) {
  const Recurrence r = recurrence_of(request);
  const int weight = r.gradient && !r.lstm ? 2 : 1;
  const int64_t width = r.real() == 4 ? std::min<int64_t>(traits.grain->width, 16) : 1;
  const auto most =
      std::bit_floor(static_cast<uint64_t>(std::min(traits.max_group_size, traits.grain->side_by_side)));
  const int64_t items =
      static_cast<int64_t>(std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(r.h)), most));
  const int64_t features = items * width, blocks = ceil_div(r.h, features),
                count = blocks * features * r.gates() * r.h;
  Defines defines;
  defines.set_dtype("DTYPE", r.dtype)
      .set("REAL", r.real() == 8 ? "f64" : "f32")
      .set("EXP", r.real() == 8 ? "exp_f64" : "exp_f32")
      .set("TANH", r.real() == 8 ? "tanh_f64" : "tanh_f32")
      .set("GATES", r.gates())
      .set("BATCH", r.batch)
      .set("TIMES", r.times)
      .set("H", r.h)
      .set("SUMS", r.sums())
      .set("STEPS", r.steps())
      .set("BLOCK", features)
      .set("ROWS", rows)
      .set("WIDTH", width);
  Defines packing = defines;
  packing.set("COUNT", count);
  for (size_t axis = 0; axis < 2; ++axis)
    packing.set(fmt::format("WEIGHT_{}", axis), request.inputs[static_cast<size_t>(weight)].strides[axis]);
  std::vector<std::string> names{"gates", "weight", r.lstm ? "first_state" : "bias",
                                 r.lstm ? "first_cell" : "first_state"};
  if (r.gradient && r.lstm) names = {"gates", "weight", "first_state", "y", "dy"};
  if (r.gradient && !r.lstm) names = {"gates", "own", "weight", "first_state", "y", "dy"};
  std::vector<RecurrenceInput> inputs;
  for (size_t i = 0; i < names.size(); ++i)
    if (static_cast<int>(i) != weight) inputs.push_back({names[i], request.inputs[i].strides});
  const auto output = static_cast<int>(names.size()), scratch = output + 1;
  const int64_t pack_items = std::min<int64_t>(traits.grain->element_items, traits.max_group_size);
  GpuLaunch pack{.name = "recurrent_pack",
                 .source = packing.before(recurrence_pack_kernel(r)),
                 .groups = {ceil_div(count, pack_items), 1, 1},
                 .group_size = {pack_items, 1, 1},
                 .arguments = {{weight}, {scratch}}};
  GpuLaunch run{.name = r.gradient ? "recurrent_grad" : "recurrent",
                .source = defines.before(recurrence_kernel(r, {rows, width}, inputs)),
                .groups = {ceil_div(r.batch, rows), 1, 1},
                .group_size = {items, 1, 1},
                .local_bytes = state_bytes(r, rows)};
  for (int i = 0; i < output; ++i)
    if (i != weight) run.arguments.push_back({i});
  run.arguments.push_back({output});
  run.arguments.push_back({scratch});
  return {.name = fmt::format("recurrence {}", rows),
          .parameters = {{"rows", rows}},
          .scratch_bytes = static_cast<size_t>(count * r.real()),
          .launches = {std::move(pack), std::move(run)}};
}

}  // namespace

static std::vector<GpuCandidate> recurrence(const KernelRequest& request, const GpuTraits& traits) {
  const Recurrence r = recurrence_of(request);
  if (request.output().shape.size() == 0) return {{.name = "nothing"}};
  std::vector<GpuCandidate> candidates;
  // With many examples, groups read the weight less often; with few, there are more groups.
  for (const int64_t rows : {4, 2, 1})
    if (rows == 1 || (rows <= r.batch && state_bytes(r, rows) <= traits.local_bytes))
      candidates.push_back(make_recurrence(request, traits, rows));
  return candidates;
}

namespace {

[[maybe_unused]] const bool recurrence_registered =
    register_template({{"lstm", "lstm_grad", "gru", "gru_grad"}, recurrence, serves_recurrence});

}  // namespace

}  // namespace athanor::gpu
