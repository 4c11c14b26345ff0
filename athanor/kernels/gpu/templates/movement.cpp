// pad, concat and fold: elements that are copied or summed from positions that follow from their index.
#include <fmt/format.h>

#include "athanor/graph/whole_number.h"
#include "athanor/kernels/copying_loop.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/loop_behind.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/memory_order.h"

namespace athanor::gpu {
namespace {

std::string number(double value, DType dtype) {
  const DType type = computed_in(dtype);
  return is_float(type) ? literal(value, type) : literal(whole_number(value), type);
}

GpuCandidate one(std::string name, GpuLaunch launch) {
  GpuCandidate candidate{std::move(name), {}, 0, {}};
  candidate.launches.push_back(std::move(launch));
  return candidate;
}

}  // namespace

static std::vector<GpuCandidate> pad(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc &x = request.inputs[0], &y = request.output();
  const Ints low = request.attrs.ints("low");
  const std::string type = stored(x.dtype);
  const Ints axes = memory_order(y.strides);  // of the items, too
  Ints extents;
  for (const int64_t axis : axes) extents.push_back(y.shape[static_cast<int>(axis)]);
  ElementKernel kernel("pad", Shape(extents), {{"x", type, {0, 0}}, {"y", type, {1, 0}}}, traits);
  std::string inside = "1";
  std::vector<std::string> from(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    from[axis] = fmt::format("j{}", i);
    kernel.code().line(fmt::format("const i64 j{0} = dim{0} - ({1});", i, low[axis]));
    inside += fmt::format(" && j{0} >= 0 && j{0} < {1}", i, x.shape[static_cast<int>(axis)]);
  }
  kernel.code().line(fmt::format("if ({}) y[flat] = x[{}];", inside, affine(0, x.strides, from)));
  kernel.code().line(fmt::format("else STORE({}, y, flat, {});", language_name(x.dtype),
                                 number(request.attrs.number("value"), x.dtype)));
  return {one("pad", kernel.finish())};
}

static std::vector<GpuCandidate> concat(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc& y = request.output();
  const auto axis = static_cast<size_t>(normalize_axis(request.attrs.integer("axis"), y.shape.rank()));
  const auto size = static_cast<int64_t>(size_of(y.dtype));
  const std::string type = stored(y.dtype);
  GpuCandidate candidate{"concat", {}, 0, {}};
  int64_t start = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const OperandDesc& x = request.inputs[i];
    // In bytes; whole vectors of it are added to the buffer's place, so that equal parts have equal kernels.
    const int64_t part = start * y.strides[axis] * size, rest = part % OperandDesc::whole_vectors;
    start += x.shape[static_cast<int>(axis)];
    if (x.shape.size() == 0) continue;
    const GpuLaunch::Argument from{static_cast<int>(i)},
        to{static_cast<int>(request.inputs.size()), part - rest};
    if (x.alignment == OperandDesc::whole_vectors) {
      LoopProgram copy = copying_loop(x.dtype, x.shape.to_ints(), x.strides, y.strides);
      copy.operands[1].offset = rest / size;
      append_loop(candidate, copy, from, {to}, request.scratch_buffer(), traits);
      continue;
    }
    // Loops move vectors, and take it that their buffers begin with one.
    ElementKernel kernel("concat", x.shape, {{"x", type, from}, {"y", type, to}}, traits);
    kernel.code().line(fmt::format("y[{}] = x[{}];", affine(rest / size, y.strides, kernel.index()),
                                   affine(0, x.strides, kernel.index())));
    candidate.launches.push_back(kernel.finish());
  }
  return {candidate};
}

static std::vector<GpuCandidate> fold(const KernelRequest& request, const GpuTraits& traits) {
  // The input has one more axis than the output: n became [windows, window size].
  const OperandDesc& x = request.inputs[0];
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  const std::string type = stored(x.dtype);
  ElementKernel kernel("fold", request.output().shape, {{"x", type, {0, 0}}, {"y", type, {1, 0}}}, traits);
  std::vector<std::string> from;
  for (int d = 0; d < x.shape.rank(); ++d)
    from.push_back(d < axis        ? fmt::format("dim{}", d)
                   : d == axis     ? "w"
                   : d == axis + 1 ? "j"
                                   : fmt::format("dim{}", d - 1));
  const int64_t step = request.attrs.integer("step");
  Code& code = kernel.code();
  const std::string_view name = language_name(x.dtype);
  code.line(fmt::format("COMPUTED({}) sum = 0;", name));
  code.open(fmt::format("for (int j = 0; j < {}; ++j)", x.shape[axis + 1]));
  code.line(fmt::format("const i64 start = dim{} - j * {};", axis, request.attrs.integer("dilation")));
  code.line(fmt::format("const i64 w = start / {};", step));
  code.line(fmt::format("if (start >= 0 && w * {} == start && w < {}) sum += LOAD({}, x, {});", step,
                        x.shape[axis], name, affine(0, x.strides, from)));
  code.close();
  code.line(fmt::format("STORE({}, y, flat, sum);", name));
  return {one("fold", kernel.finish())};
}

namespace {

[[maybe_unused]] const bool pad_registered = register_template({{"pad"}, pad});
[[maybe_unused]] const bool concat_registered = register_template({{"concat"}, concat});
[[maybe_unused]] const bool fold_registered = register_template({{"fold"}, fold});

}  // namespace

}  // namespace athanor::gpu
