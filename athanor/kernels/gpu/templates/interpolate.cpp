// interpolate and its gradient. An item computes an element of the result from a few elements of x. Tables,
// one for each resized axis, say which elements and with what weights.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/ops/resizing.h"

namespace athanor::gpu {
namespace {

// The most bytes of all tables together; devices have 64 KiB of constant memory.
constexpr int64_t most_table_bytes = 48 * 1024;
// The most terms of an element of the gradient of a larger result: one work-item sums them all.
constexpr int64_t most_taps_up = 1024;

/// The elements that each element along an axis sums: `taps` neighbours, from `first` on.
struct AxisTable {
  int axis;
  int64_t taps = 1;
  std::vector<int64_t> first;
  std::vector<double> weights;  // [elements, taps]
  bool copies = false;          // each copies one element

  AxisTable(const Resizing& r, bool transposed, int at) : axis(at) {
    const int64_t in = transposed ? r.out : r.in, out = transposed ? r.in : r.out;
    std::vector<std::map<int64_t, double>> shares(static_cast<size_t>(out));
    for (int64_t i = 0; i < r.out; ++i)
      each_share(r, i, [&](int64_t j, double share) {
        if (share != 0) shares[static_cast<size_t>(transposed ? j : i)][transposed ? i : j] += share;
      });
    for (const auto& element : shares)
      if (!element.empty()) taps = std::max(taps, element.rbegin()->first - element.begin()->first + 1);
    copies = taps == 1;
    for (const auto& element : shares) {
      const int64_t start = element.empty() ? 0 : std::min(element.begin()->first, in - taps);
      first.push_back(start);
      weights.resize(first.size() * static_cast<size_t>(taps));
      double* to = weights.data() + (first.size() - 1) * static_cast<size_t>(taps);
      for (const auto& [from, share] : element) to[from - start] = share;
      copies = copies && element.size() == 1 && element.begin()->second == 1;
    }
  }

  int64_t bytes(DType dtype) const {
    return static_cast<int64_t>(first.size()) * (4 + (copies ? 0 : taps * (dtype == DType::f64 ? 8 : 4)));
  }
};

std::vector<AxisTable> tables_of(const Shape& from, const Shape& to, const Attrs& attrs, bool gradient) {
  std::vector<AxisTable> tables;
  for (int axis = 2; axis < to.rank(); ++axis)
    if (from[axis] != to[axis])
      tables.emplace_back(
          gradient ? resizing(to[axis], from[axis], attrs) : resizing(from[axis], to[axis], attrs), gradient,
          axis);
  return tables;
}

bool serves_resizing(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                     const GpuTraits& traits) {
  if (!serves_floats(inputs, output, attrs, traits) || output.shape.size() == 0 ||
      inputs[0].shape.size() == 0)
    return false;
  // For whole steps the decomposition is a view. For a larger result it is small products, which are faster
  // on CPUs; on GPUs the memory traffic between them costs more.
  const bool gradient = attrs.has("input_size");
  const Shape &x = gradient ? output.shape : inputs[0].shape, &y = gradient ? inputs[0].shape : output.shape;
  if (x.size() <= y.size() && traits.grain->side_by_side == 1) return false;
  bool whole_steps = attrs.text("mode").starts_with("nearest");
  for (int axis = 2; axis < x.rank(); ++axis) whole_steps = whole_steps && x[axis] % y[axis] == 0;
  if (whole_steps) return false;
  int64_t bytes = 0, taps = 1;
  for (const AxisTable& table : tables_of(inputs[0].shape, output.shape, attrs, gradient)) {
    bytes += table.bytes(output.dtype);
    taps *= table.taps;
  }
  return bytes <= most_table_bytes && (x.size() > y.size() || taps <= most_taps_up);
}

std::string table_text(const AxisTable& table, DType dtype) {
  std::string text = fmt::format("CONSTANT i32 first_{}[{}] = {{{}}};\n", table.axis, table.first.size(),
                                 fmt::join(table.first, ","));
  if (table.copies) return text;
  const bool wide = dtype == DType::f64;
  text +=
      fmt::format("CONSTANT {} weight_{}[{}] = {{", wide ? "f64" : "f32", table.axis, table.weights.size());
  for (const double weight : table.weights)
    text += wide ? fmt::format("{:#.17g},", weight) : fmt::format("{:#.9g}f,", weight);
  text.back() = '}';
  return text + ";\n";
}

}  // namespace

static std::vector<GpuCandidate> resizing_kernels(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc& x = request.inputs[0];
  const Shape& shape = request.output().shape;
  const DType dtype = x.dtype;
  const std::string_view name = language_name(dtype);
  const auto tables = tables_of(x.shape, shape, request.attrs, request.op->name == "interpolate_grad");
  ElementKernel kernel("resize", shape, {{"x", stored(dtype), {0, 0}}, {"y", stored(dtype), {1, 0}}}, traits);
  Code& code = kernel.code();
  std::vector<std::string> at = kernel.index();
  code.line(fmt::format("COMPUTED({}) sum = 0;", name));
  std::string weight;
  for (const AxisTable& table : tables) {
    const std::string a = std::to_string(table.axis), place = at[static_cast<size_t>(table.axis)];
    code.open(fmt::format("for (int t{} = 0; t{} < {}; ++t{})", a, a, table.taps, a));
    if (!table.copies)
      weight +=
          fmt::format("{}weight_{}[{} * {} + t{}]", weight.empty() ? "" : " * ", a, place, table.taps, a);
    code.line(fmt::format("const i64 from{} = first_{}[{}] + t{};", a, a, place, a));
    at[static_cast<size_t>(table.axis)] = "from" + a;
  }
  code.line(fmt::format("sum += {}{}LOAD({}, x, {});", weight, weight.empty() ? "" : " * ", name,
                        affine(0, x.strides, at)));
  for (size_t i = 0; i < tables.size(); ++i) code.close();
  code.line(fmt::format("STORE({}, y, flat, sum);", name));
  GpuLaunch launch = kernel.finish();
  std::string constants;
  for (const AxisTable& table : tables) constants += table_text(table, dtype);
  launch.source = constants + launch.source;
  return {{.name = "resize", .launches = {std::move(launch)}}};
}

namespace {

[[maybe_unused]] const bool resizing_registered =
    register_template({{"interpolate", "interpolate_grad"}, resizing_kernels, serves_resizing});

}  // namespace

}  // namespace athanor::gpu
