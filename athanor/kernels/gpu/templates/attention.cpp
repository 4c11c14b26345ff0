// Attention and its gradients: see attention.kernel.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/templates.h"

#include "athanor/base/ceil_div.h"

namespace athanor::gpu {
namespace {

enum class Kind : uint8_t { forward, lse, grad_q, grad_k, grad_v };

/// The inputs of an op by name, in their order; the mask comes last where there is one.
std::vector<std::string> inputs_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return {"q", "k", "v"};
    case Kind::lse:
      return {"q", "k"};
    case Kind::grad_v:
      return {"q", "k", "g", "lse"};
    default:
      return {"q", "k", "v", "g", "lse", "delta"};
  }
}

/// Where batch `batch` of an operand starts: its leading axes, but for the last `kept`, unfolded.
std::string start_of(const OperandDesc& operand, int kept) {
  std::string text = "0";
  int64_t below = 1;
  for (int axis = operand.shape.rank() - kept; axis-- > 0;) {
    const int64_t extent = operand.shape[axis];
    text += fmt::format(" + batch / {} % {} * (INDEX){}", below, std::max<int64_t>(extent, 1),
                        operand.strides[static_cast<size_t>(axis)]);
    below *= std::max<int64_t>(extent, 1);
  }
  return "(" + text + ")";
}

/// The element of a value for each query, [..., T], of the query that is `row` in all batches.
std::string row_index(const OperandDesc& operand) {
  std::string text = "0";
  int64_t below = 1;
  for (int axis = operand.shape.rank(); axis-- > 0;) {
    const int64_t extent = std::max<int64_t>(operand.shape[axis], 1);
    text += fmt::format(" + (row) / {} % {} * (INDEX){}", below, extent,
                        operand.strides[static_cast<size_t>(axis)]);
    below *= extent;
  }
  return "(" + text + ")";
}

struct Point {
  int64_t rows, block, items;
};

/// Those whose blocks fit into local memory; the last one always does.
std::vector<Point> points_of(int64_t own_rows, int64_t bytes_of_row, const GpuTraits& traits) {
  const int64_t items = std::min<int64_t>(64, traits.max_group_size);
  const auto rows = [&](int64_t most) { return std::min(own_rows, most); };
  std::vector<Point> points = traits.is_cpu
                                  ? std::vector<Point>{{rows(16), 32, 1}, {rows(16), 64, 1}, {rows(4), 16, 1}}
                                  : std::vector<Point>{{1, 32, items}, {1, 16, items}, {1, 8, items}};
  std::erase_if(points, [&](const Point& point) { return point.block * bytes_of_row > traits.local_bytes; });
  if (points.empty()) points.push_back({1, 1, traits.is_cpu ? 1 : items});
  if (points.size() > 2) points.resize(traits.is_cpu ? 3 : 2);
  return points;
}

std::vector<GpuCandidate> attention_of(const KernelRequest& request, Kind kind, const GpuTraits& traits) {
  if (request.output.shape.size() == 0) return {{.name = "nothing"}};
  std::vector<std::string> names = inputs_of(kind);
  const bool masked = request.inputs.size() > names.size();
  if (masked) names.emplace_back("mask");
  const DType dtype = request.inputs[0].dtype;
  const int64_t queries = request.inputs[0].shape[-2], keys = request.inputs[1].shape[-2],
                d = request.inputs[0].shape[-1];
  // The features of v and the result; where there is neither, as many as there are.
  const int64_t e = kind == Kind::lse ? 1 : request.inputs[2].shape[-1];
  const bool by_keys = kind == Kind::grad_k || kind == Kind::grad_v;
  const int64_t own = by_keys ? keys : queries;
  const int64_t batches = request.inputs[0].shape.size() / (queries * d);

  Defines defines;
  std::string parameters, binds;
  std::vector<GpuLaunch::Argument> arguments;
  for (size_t i = 0; i < names.size(); ++i) {
    const OperandDesc& operand = request.inputs[i];
    const std::string type = fmt::format("const STORED({})", language_name(operand.dtype));
    parameters += fmt::format("BUFFER({}, {}), ", type, names[i]);
    binds += fmt::format("BIND({}, {}); ", type, names[i]);
    arguments.push_back({static_cast<int>(i)});
    if (names[i] == "lse" || names[i] == "delta") {
      defines.set(names[i] == "lse" ? "LSE_INDEX(row)" : "DELTA_INDEX(row)", row_index(operand))
          .set_dtype(names[i] == "lse" ? "ROW_DTYPE" : "DELTA_DTYPE", operand.dtype);
      continue;
    }
    std::string prefix = names[i];
    std::ranges::transform(prefix, prefix.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
    defines.set(prefix + "_START", start_of(operand, 2))
        .set(prefix + "_ROW", operand.strides[operand.strides.size() - 2])
        .set(prefix + "_FEATURE", operand.strides.back());
  }
  const std::string out = fmt::format("STORED({})", language_name(request.output.dtype));
  parameters += fmt::format("BUFFER({}, out)", out);
  binds += fmt::format("BIND({}, out);", out);
  arguments.push_back({static_cast<int>(request.inputs.size())});
  const bool f64 = dtype == DType::f64;
  defines.set("PARAMETERS", parameters)
      .set("BINDS", binds)
      .set_dtype("DTYPE", dtype)
      .set_dtype("OUT_DTYPE", request.output.dtype)
      .set("EXP(x)", f64 ? "exp_f64(x)" : "exp_f32(x)")
      .set("LOG(x)", f64 ? "log_f64(x)" : "log_f32(x)")
      .set("INDEX", "i64")
      .set("KIND", static_cast<int64_t>(kind))
      .set("HAS_MASK", masked)
      .set("CAUSAL", request.attrs.flag("causal"))
      .set("SCALE", fmt::format("{:.17e}{}", request.attrs.number("scale"), f64 ? "" : "f"))
      .set("QUERIES", queries)
      .set("KEYS", keys)
      .set("D", d)
      .set("E", e);

  std::vector<GpuCandidate> candidates;
  // What lies in local memory of each row of a block; see the template.
  const int64_t second = kind == Kind::grad_q || kind == Kind::grad_k;
  const int64_t in_rows = kind == Kind::lse ? 0 : kind == Kind::forward || kind == Kind::grad_v ? e : d;
  const int64_t bytes_of_row = (d + second * e + in_rows + (by_keys ? 1 + second : 0)) * (f64 ? 8 : 4);
  for (const Point& point : points_of(own, bytes_of_row, traits)) {
    Defines all = defines;
    all.set("ROWS", point.rows).set("BLOCK", point.block);
    GpuLaunch launch{.name = "attention",
                     .source = all.text() + std::string(template_text("attention")),
                     .groups = {batches * ceil_div(own, point.rows * point.items), 1, 1},
                     .group_size = {point.items, 1, 1},
                     .local_bytes = point.block * bytes_of_row,
                     .arguments = arguments};
    candidates.push_back(
        {.name = fmt::format("flash attention {}x{}", point.rows * point.items, point.block),
         .parameters = {{"rows", point.rows}, {"block", point.block}, {"items", point.items}},
         .launches = {std::move(launch)}});
  }
  return candidates;
}

}  // namespace

std::vector<GpuCandidate> attention(const KernelRequest& request, const GpuTraits& traits) {
  const std::string& name = request.op->name;
  const Kind kind = name == "attention_lse"      ? Kind::lse
                    : name == "attention_grad_q" ? Kind::grad_q
                    : name == "attention_grad_k" ? Kind::grad_k
                    : name == "attention_grad_v" ? Kind::grad_v
                                                 : Kind::forward;
  return attention_of(request, kind, traits);
}

}  // namespace athanor::gpu
