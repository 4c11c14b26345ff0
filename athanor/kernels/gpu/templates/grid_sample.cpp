// grid_sample and its gradients by x and by the grid.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {
namespace {

constexpr int64_t channels_together = 8;

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

/// place_of(g, extent): where a number of the grid is along an axis. -1 and 1 are the centres of the first
/// and last elements if `corners` are aligned, else their outer edges.
void write_place(Code& code, const std::string& border, bool corners) {
  code.open("DEVICE Place place_of(REAL g, int extent)");
  code.line("Place p;");
  code.line("const REAL n = (REAL)extent;");
  code.line(corners ? "p.slope = (n - 1) / 2;" : "p.slope = n / 2;");
  code.line(corners ? "p.at = (g + 1) * p.slope;" : "p.at = (g + 1) * p.slope - (REAL)0.5;");
  if (border == "reflection") {
    code.line(corners ? "const REAL low = 0, span = n - 1;" : "const REAL low = (REAL)-0.5, span = n;");
    code.open("if (span == 0)");
    code.line("p.at = p.at * 0;");
    code.line("p.slope = 0;");
    code.line("return p;");
    code.close();
    code.line("const REAL from = p.at < low ? low - p.at : p.at - low, turns = FLOOR(from / span);");
    code.line("const REAL rest = from - turns * span;");
    code.line("const int back = turns - 2 * FLOOR(turns / 2) != 0;");
    code.line("if ((p.at < low) != back) p.slope = -p.slope;");
    code.line("p.at = (back ? span - rest : rest) + low;");
  }
  if (border != "zeros")
    for (const auto& [beyond, edge] : {std::pair{"p.at < 0", "0"}, std::pair{"p.at > n - 1", "n - 1"}}) {
      code.open(fmt::format("if ({})", beyond));
      code.line(fmt::format("p.at = {};", edge));
      code.line("p.slope = 0;");
      code.close();
    }
  code.line("return p;");
  code.close();
}

/// taps_of(down, across)
void write_taps(Code& code, bool nearest) {
  if (nearest) {
    code.line("// The nearest integer; ties to even.");
    code.open("DEVICE REAL nearest_to(REAL x)");
    code.line("const REAL below = FLOOR(x), rest = x - below, middle = (REAL)0.5;");
    code.line("const int odd = below - 2 * FLOOR(below / 2) != 0;");
    code.line("return rest > middle || (rest == middle && odd) ? below + 1 : below;");
    code.close();
  }
  const char* whole = nearest ? "nearest_to" : "FLOOR";
  code.open("DEVICE Taps taps_of(Place down, Place across)");
  code.line("Taps t;");
  code.line(fmt::format("const REAL top = {0}(down.at), left = {0}(across.at);", whole));
  if (!nearest) code.line("const REAL far_down = down.at - top, far_across = across.at - left;");
  for (int k = 0; k < (nearest ? 1 : 4); ++k) {
    const char *row = k >= 2 ? "top + 1" : "top", *column = k % 2 == 1 ? "left + 1" : "left";
    const std::string share = nearest ? std::string("1")
                                      : fmt::format("{} * {}", k >= 2 ? "far_down" : "(1 - far_down)",
                                                    k % 2 == 1 ? "far_across" : "(1 - far_across)");
    code.line(fmt::format("const int inside{} = INSIDE({}, {});", k, row, column));
    code.line(fmt::format("t.row[{0}] = inside{0} ? (int)({1}) : 0;", k, row));
    code.line(fmt::format("t.column[{0}] = inside{0} ? (int)({1}) : 0;", k, column));
    code.line(fmt::format("t.share[{0}] = inside{0} ? {1} : 0;", k, share));
  }
  code.line("return t;");
  code.close();
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
      .set("TAPS", nearest ? 1 : 4)
      .set("COUNT", count)
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
  Code point;
  write_place(point, request.attrs.text("border"), request.attrs.flag("align_corners"));
  if (!grid_grad) write_taps(point, nearest);
  const auto launch = [&](const std::string& name, std::vector<GpuLaunch::Argument> arguments) {
    return GpuLaunch{.name = name,
                     .source = defines.before(fmt::format("{}\n{}\n{}", template_text("grid_sample_point"),
                                                          point.text(), template_text(name))),
                     .groups = {ceil_div(count, items), 1, 1},
                     .group_size = {items, 1, 1},
                     .arguments = std::move(arguments)};
  };
  GpuCandidate candidate{.name = "grid_sample"};
  if (input_grad) {
    candidate.launches.push_back(zero_launch(dtype, x.size(), {2}, traits));
    candidate.launches.push_back(launch("grid_sample_back", {{0}, {1}, {2}}));
  } else if (grid_grad) {
    candidate.launches.push_back(launch("grid_sample_grid", {{0}, {1}, {2}, {3}}));
  } else {
    candidate.launches.push_back(launch("grid_sample", {{0}, {1}, {2}}));
  }
  return {std::move(candidate)};
}

namespace {

[[maybe_unused]] const bool sampling_registered = register_template(
    {{"grid_sample", "grid_sample_input_grad", "grid_sample_grid_grad"}, sampling_kernels, serves_sampling});

}  // namespace

}  // namespace athanor::gpu
