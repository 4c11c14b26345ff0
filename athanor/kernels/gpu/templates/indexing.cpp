// take_along and scatter_add: a tensor gives the elements' positions along an axis.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {
namespace {

// If each element of the result needs at most this many comparisons, it looks for its own terms, in their
// order, without atomics.
constexpr int64_t most_gathered = 256;

// Loads index `at` of an axis of `extent` into `e`, or reports the fault and returns.
void load_index(Code& code, const OperandDesc& index, const std::string& at, int64_t extent) {
  code.line(fmt::format("const i64 e = LOAD({}, index, {});", language_name(index.dtype), at));
  code.open(fmt::format("if (e < 0 || e >= {})", extent));
  code.line("FAULT(fault, e);");
  code.line("return;");
  code.close();
}

// Each element of the result looks for its terms.
GpuCandidate gathered(const KernelRequest& request, int axis, const GpuTraits& traits) {
  const OperandDesc &index = request.inputs[0], &source = request.inputs[1];
  const std::string_view name = language_name(source.dtype);
  const auto a = static_cast<size_t>(axis);
  ElementKernel kernel("scatter_add", request.output().shape,
                       {{"index", stored(index.dtype), {0, 0}},
                        {"source", stored(source.dtype), {1, 0}},
                        {"y", stored(source.dtype), {2, 0}}},
                       traits, true);
  std::vector<std::string> at = kernel.index();
  at[a] = "p";
  Code& code = kernel.code();
  code.line(fmt::format("COMPUTED({}) sum = 0;", name));
  code.open(fmt::format("for (int p = 0; p < {}; ++p)", source.shape[axis]));
  load_index(code, index, affine(0, index.strides, at), request.output().shape[axis]);
  code.line(
      fmt::format("if (e == dim{}) sum += LOAD({}, source, {});", axis, name, affine(0, source.strides, at)));
  code.close();
  code.line(fmt::format("STORE({}, y, flat, sum);", name));
  GpuCandidate candidate{"gather", {}, 0, {}};
  candidate.launches.push_back(kernel.finish());
  return candidate;
}

// Writes zeros, then adds each term atomically. Sums of narrow floats are in f32 and rounded once.
GpuCandidate atomic(const KernelRequest& request, int axis, const GpuTraits& traits) {
  const OperandDesc &index = request.inputs[0], &source = request.inputs[1];
  const Shape& shape = request.output().shape;
  const bool narrow = is_narrow_float(source.dtype);
  const std::string_view name = language_name(source.dtype), wide = narrow ? "f32" : name;
  const GpuLaunch::Argument sums{narrow ? 3 : 2, 0};
  GpuCandidate candidate{"atomic", {}, narrow ? static_cast<size_t>(shape.size()) * 4 : 0, {}};
  candidate.launches.push_back(zero_launch(narrow ? DType::f32 : source.dtype, shape.size(), sums, traits));
  if (source.shape.size() > 0) {
    ElementKernel add("scatter_add", source.shape,
                      {{"index", stored(index.dtype), {0, 0}},
                       {"source", stored(source.dtype), {1, 0}},
                       {"sums", std::string(wide), sums}},
                      traits, true);
    load_index(add.code(), index, affine(0, index.strides, add.index()), shape[axis]);
    std::vector<std::string> to = add.index();
    to[static_cast<size_t>(axis)] = "e";
    add.code().line(fmt::format("atomic_add_{}(sums + ({}), LOAD({}, source, {}));", wide,
                                affine(0, contiguous_strides(shape), to), name,
                                affine(0, source.strides, add.index())));
    candidate.launches.push_back(add.finish());
  }
  if (narrow) {
    ElementKernel round("scatter_add_round", shape,
                        {{"sums", "f32", sums}, {"y", stored(source.dtype), {2, 0}}}, traits);
    round.code().line(fmt::format("STORE({}, y, flat, sums[flat]);", name));
    candidate.launches.push_back(round.finish());
  }
  return candidate;
}

}  // namespace

static std::vector<GpuCandidate> take_along(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc &x = request.inputs[0], &index = request.inputs[1];
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  const std::string type = stored(x.dtype);
  ElementKernel kernel("take_along", request.output().shape,
                       {{"x", type, {0, 0}}, {"index", stored(index.dtype), {1, 0}}, {"y", type, {2, 0}}},
                       traits, true);
  load_index(kernel.code(), index, affine(0, index.strides, kernel.index()), x.shape[axis]);
  std::vector<std::string> from = kernel.index();
  from[static_cast<size_t>(axis)] = "e";
  kernel.code().line(fmt::format("y[flat] = x[{}];", affine(0, x.strides, from)));
  GpuCandidate candidate{"take_along", {}, 0, {}};
  candidate.launches.push_back(kernel.finish());
  return {candidate};
}

static std::vector<GpuCandidate> scatter_add(const KernelRequest& request, const GpuTraits& traits) {
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  const DType dtype = request.output().dtype;
  const bool eight_bits = size_of(dtype) == 1, sixty_four = size_of(dtype) == 8;
  const bool has_atomic = !eight_bits && (!sixty_four || traits.atomics_64);
  std::vector<GpuCandidate> all;
  if (!has_atomic || request.inputs[1].shape[axis] <= most_gathered)
    all.push_back(gathered(request, axis, traits));
  if (has_atomic) all.push_back(atomic(request, axis, traits));
  return all;
}

namespace {

[[maybe_unused]] const bool take_along_registered = register_template({{"take_along"}, take_along});
[[maybe_unused]] const bool scatter_add_registered = register_template({{"scatter_add"}, scatter_add});

}  // namespace

}  // namespace athanor::gpu
