// cumsum and argsort: along an axis, for every line of the other axes.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {
namespace {

// Lines up to this length are sorted by counting, for each element, the elements before it.
constexpr int64_t most_counted = 2048;

// The lines of a shape along an axis: a shape with that axis made 1 (or `parts`).
Shape lines_of(const Shape& shape, int axis, int64_t parts = 1) {
  Ints dims = shape.to_ints();
  dims[static_cast<size_t>(axis)] = parts;
  return {dims};
}

// key_of(x): an unsigned number with the element's order; 0 and -0 are equal, NaN is largest.
std::string key_function(DType dtype, bool descending) {
  const std::string_view name = language_name(dtype);
  std::string body;
  switch (dtype) {
    case DType::f64:
      body =
          "const u64 bits = BITS_OF_F64(x == 0 ? 0 : x); const u64 key = x != x ? ~(u64)0 : bits >> 63 ? "
          "~bits : bits | (u64)1 << 63;";
      break;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
      body =
          "const u32 bits = BITS_OF_F32(x == 0 ? 0.0f : x); const u32 key = x != x ? ~(u32)0 : bits >> 31 ? "
          "~bits : bits | (u32)1 << 31;";
      break;
    case DType::i64:
      body = "const u64 key = (u64)x ^ (u64)1 << 63;";
      break;
    default:
      body = "const u32 key = (u32)(i32)x ^ (u32)1 << 31;";
      break;
  }
  return fmt::format("DEVICE u64 key_of(COMPUTED({}) x) {{ {} return {}key; }}\n", name, body,
                     descending ? "~(u64)" : "");
}

}  // namespace

static std::vector<GpuCandidate> cumsum(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc& x = request.inputs[0];
  const Shape& shape = request.output().shape;
  const int axis = normalize_axis(request.attrs.integer("axis"), shape.rank());
  const auto a = static_cast<size_t>(axis);
  const std::string_view name = language_name(x.dtype);
  const int64_t n = shape[axis], lines = shape.size() / std::max<int64_t>(1, n);
  // A few long lines are cut into parts: first the sums of the parts, then each part starts from the sum of
  // those before it.
  const int64_t wanted = traits.grain->scan_parts * traits.compute_units;
  const int64_t parts = std::clamp<int64_t>(std::min(wanted / std::max<int64_t>(1, lines), n / 256), 1, 256);
  const std::string total_type = fmt::format("COMPUTED({})", name);
  GpuCandidate candidate{parts == 1 ? "scan" : "scan in parts", {{"parts", parts}}, 0, {}};
  const Shape work = lines_of(shape, axis, parts);
  const Ints strides = contiguous_strides(shape);
  std::vector<Parameter> parameters{{"x", stored(x.dtype), {0, 0}}, {"y", stored(x.dtype), {1, 0}}};
  const auto open_part = [&](ElementKernel& kernel) {
    const std::string part = kernel.index()[a];
    kernel.code().line(
        fmt::format("const i64 from = {0} * {1} / {2}, to = ({0} + 1) * {1} / {2};", part, n, parts));
  };
  std::vector<std::string> at;
  for (int d = 0; d < shape.rank(); ++d) at.push_back(d == axis ? "p" : fmt::format("dim{}", d));
  if (parts > 1) {
    parameters.push_back({"totals", total_type, {2, 0}});
    candidate.scratch_bytes = static_cast<size_t>(work.size()) * 8;
    ElementKernel kernel("part_sums", work, parameters, traits);
    open_part(kernel);
    kernel.code().line(total_type + " sum = 0;");
    kernel.code().line(fmt::format("for (i64 p = from; p < to; ++p) sum += LOAD({}, x, {});", name,
                                   affine(0, x.strides, at)));
    kernel.code().line("totals[flat] = sum;");
    candidate.launches.push_back(kernel.finish());
  }
  ElementKernel kernel("cumsum", work, parameters, traits);
  open_part(kernel);
  kernel.code().line(total_type + " sum = 0;");
  if (parts > 1) {
    std::vector<std::string> before = kernel.index();
    before[a] = "b";
    kernel.code().line(fmt::format("for (int b = 0; b < dim{}; ++b) sum += totals[{}];", axis,
                                   affine(0, contiguous_strides(work), before)));
  }
  kernel.code().open("for (i64 p = from; p < to; ++p)");
  kernel.code().line(fmt::format("sum += LOAD({}, x, {});", name, affine(0, x.strides, at)));
  kernel.code().line(fmt::format("STORE({}, y, {}, sum);", name, affine(0, strides, at)));
  kernel.code().close();
  candidate.launches.push_back(kernel.finish());
  return {candidate};
}

static std::vector<GpuCandidate> argsort(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc& x = request.inputs[0];
  const Shape& shape = request.output().shape;
  const int axis = normalize_axis(request.attrs.integer("axis"), shape.rank());
  const auto a = static_cast<size_t>(axis);
  const std::string_view name = language_name(x.dtype);
  const int64_t n = shape[axis];
  const std::string keys =
      key_function(x.dtype, request.attrs.has("descending") && request.attrs.flag("descending"));
  const Ints strides = contiguous_strides(shape);
  std::vector<std::string> at;
  for (int d = 0; d < shape.rank(); ++d) at.push_back(fmt::format("dim{}", d));
  const auto element = [&](const std::string& p) {
    at[a] = p;
    return fmt::format("key_of(LOAD({}, x, {}))", name, affine(0, x.strides, at));
  };
  const auto place = [&](const std::string& p) {
    at[a] = p;
    return affine(0, strides, at);
  };
  if (n <= most_counted) {
    ElementKernel kernel("argsort", shape, {{"x", stored(x.dtype), {0, 0}}, {"order", "i64", {1, 0}}},
                         traits);
    Code& code = kernel.code();
    code.line(fmt::format("const u64 mine = {};", element(fmt::format("dim{}", axis))));
    code.line("i64 rank = 0;");
    code.open(fmt::format("for (int p = 0; p < {}; ++p)", n));
    code.line(fmt::format("const u64 other = {};", element("p")));
    code.line(fmt::format("rank += other < mine || (other == mine && p < dim{});", axis));
    code.close();
    code.line(fmt::format("order[{}] = dim{};", place("rank"), axis));
    GpuCandidate candidate{"rank by counting", {}, 0, {}};
    candidate.launches.push_back(kernel.finish());
    candidate.launches.back().source = keys + candidate.launches.back().source;
    return {candidate};
  }
  // Merging: runs of 1, 2, 4, ... elements. Each element finds its position by bisecting the run beside its
  // own. The order moves between scratch memory and the result.
  int passes = 0;
  for (int64_t width = 1; width < n; width *= 2) ++passes;
  GpuCandidate candidate{"merge", {}, static_cast<size_t>(shape.size()) * 8, {}};
  const auto buffer = [&](int pass) { return GpuLaunch::Argument{(passes - pass) % 2 == 0 ? 1 : 2, 0}; };
  ElementKernel first("number", shape, {{"order", "i64", buffer(0)}}, traits);
  first.code().line(fmt::format("order[flat] = dim{};", axis));
  candidate.launches.push_back(first.finish());
  int pass = 0;
  for (int64_t width = 1; width < n; width *= 2, ++pass) {
    ElementKernel kernel(
        "merge", shape,
        {{"x", stored(x.dtype), {0, 0}}, {"from", "i64", buffer(pass)}, {"to", "i64", buffer(pass + 1)}},
        traits);
    Code& code = kernel.code();
    const std::string self = fmt::format("dim{}", axis);
    code.line("const i64 mine = from[flat];");
    code.line(fmt::format("const u64 key = {};", element("mine")));
    code.line(fmt::format("const i64 pair = {} / {} * {};", self, 2 * width, 2 * width));
    code.line(fmt::format("const int right = {} >= pair + {};", self, width));
    code.line(fmt::format("const i64 other = MIN(right ? pair : pair + {}, (i64){});", width, n));
    code.line(fmt::format("const i64 end = MIN(other + {}, (i64){});", width, n));
    code.line("i64 low = other, high = end;");
    code.open("while (low < high)");
    code.line("const i64 middle = (low + high) / 2;");
    code.line(fmt::format("const i64 there = from[{}];", place("middle")));
    code.line(fmt::format("const u64 found = {};", element("there")));
    code.line("if (right ? found <= key : found < key) low = middle + 1;");
    code.line("else high = middle;");
    code.close();
    code.line(fmt::format("const i64 target = pair + ({} - (right ? pair + {} : pair)) + (low - other);",
                          self, width));
    code.line(fmt::format("to[{}] = mine;", place("target")));
    candidate.launches.push_back(kernel.finish());
    candidate.launches.back().source = keys + candidate.launches.back().source;
  }
  return {candidate};
}

namespace {

[[maybe_unused]] const bool cumsum_registered = register_template({{"cumsum"}, cumsum});
[[maybe_unused]] const bool argsort_registered = register_template({{"argsort"}, argsort});

}  // namespace

}  // namespace athanor::gpu
