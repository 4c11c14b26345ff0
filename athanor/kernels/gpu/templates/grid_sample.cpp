// grid_sample and its gradients by x and by the grid.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {
namespace {

constexpr int64_t channels_together = 8;

enum SamplingKind : int { sampling_forward, sampling_zero, sampling_back, sampling_grid };

bool serves_sampling(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                     const GpuTraits& traits) {
  if (!serves_floats(inputs, output, attrs, traits) || output.shape.size() == 0 ||
      std::ranges::any_of(
          inputs, [&](const TensorType& in) { return in.shape.size() == 0 || in.dtype != output.dtype; }))
    return false;
  const bool grid_grad = inputs.size() == 3, input_grad = !grid_grad && attrs.has("input_size");
  const Shape &grid = inputs[input_grad ? 0 : 1].shape, &x = input_grad ? output.shape : inputs[0].shape;
  constexpr int64_t most = int64_t{1} << 31;  // kernels count these by i32
  if (grid[1] * grid[2] >= most || x[0] >= most || x[1] >= most || x[2] >= most || x[3] >= most) return false;
  if (grid_grad && attrs.text("mode") == "nearest") return false;
  return !input_grad || output.dtype == DType::f32 || (output.dtype == DType::f64 && traits.atomics_64);
}

}  // namespace

static std::vector<GpuCandidate> sampling_kernels(const KernelRequest& request, const GpuTraits& traits) {
  const std::string& op = request.op->name;
  const bool input_grad = op == "grid_sample_input_grad", grid_grad = op == "grid_sample_grid_grad";
  const DType dtype = request.output().dtype;
  const bool wide = dtype == DType::f64, nearest = request.attrs.text("mode") == "nearest";
  const OperandDesc &grid = request.inputs[input_grad ? 0 : 1], &data = request.inputs[0];
  const Shape& x = input_grad ? request.output().shape : data.shape;
  const int64_t points = grid.shape[1] * grid.shape[2];
  const int64_t parts = grid_grad ? 1 : ceil_div(x[1], channels_together), count = x[0] * parts * points;
  Defines defines;
  defines.set_dtype("DTYPE", dtype)
      .set("REAL", wide ? "f64" : "f32")
      .set("FLOOR", wide ? "floor_f64" : "floor_f32")
      .set("ATOMIC_ADD", wide ? "atomic_add_f64" : "atomic_add_f32")
      .set("NEAREST", nearest)
      .set("CORNERS", request.attrs.flag("align_corners"))
      .set("ZEROS", request.attrs.text("border") == "zeros")
      .set("REFLECTION", request.attrs.text("border") == "reflection")
      .set("TAPS", nearest ? 1 : 4)
      .set("COUNT", count)
      .set("ELEMENTS", x.size())
      .set("PARTS", parts)
      .set("TOGETHER", channels_together)
      .set("CHANNELS", x[1])
      .set("HEIGHT", x[2])
      .set("WIDTH", x[3])
      .set("POINTS", points)
      .set("COLUMNS", grid.shape[2]);
  for (size_t axis = 0; axis < 4; ++axis) {
    defines.set(fmt::format("GRID_{}", axis), grid.strides[axis]);
    defines.set(fmt::format("DATA_{}", axis), data.strides[axis]);
    if (input_grad || grid_grad) defines.set(fmt::format("DY_{}", axis), request.inputs.back().strides[axis]);
  }
  const int64_t items = std::min(traits.grain->element_items, traits.max_group_size);
  const auto launch = [&](const std::string& name, SamplingKind kind, int64_t work,
                          std::vector<GpuLaunch::Argument> arguments) {
    Defines own = defines;
    own.set("KIND", kind);
    return GpuLaunch{.name = name,
                     .source = own.text() + std::string(template_text("grid_sample")),
                     .groups = {ceil_div(work, items), 1, 1},
                     .group_size = {items, 1, 1},
                     .arguments = std::move(arguments)};
  };
  GpuCandidate candidate{.name = "grid_sample"};
  if (input_grad) {
    candidate.launches.push_back(launch("grid_sample_zero", sampling_zero, x.size(), {{2}}));
    candidate.launches.push_back(launch("grid_sample_back", sampling_back, count, {{0}, {1}, {2}}));
  } else if (grid_grad) {
    candidate.launches.push_back(launch("grid_sample_grid", sampling_grid, count, {{0}, {1}, {2}, {3}}));
  } else {
    candidate.launches.push_back(launch("grid_sample", sampling_forward, count, {{0}, {1}, {2}}));
  }
  return {std::move(candidate)};
}

namespace {

[[maybe_unused]] const bool sampling_registered = register_template(
    {{"grid_sample", "grid_sample_input_grad", "grid_sample_grid_grad"}, sampling_kernels, serves_sampling});

}  // namespace

}  // namespace athanor::gpu
