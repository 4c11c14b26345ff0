// Attention and its gradients: by matrix units (flash_kernel.h), or by attention_rows.kernel and
// attention_tiles.kernel.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/attention.h"
#include "athanor/kernels/gpu/templates/points.h"

namespace athanor::gpu {
namespace {

using Kind = AttentionKind;

/// The inputs of an op by name, in their order; the mask, if any, comes last.
std::vector<std::string> inputs_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return {"q", "k", "v"};
    case Kind::lse:
      return {"q", "k"};
    default:
      return {"q", "k", "v", "g", "lse", "delta"};
  }
}

/// Where batch `batch` of an operand starts. Unfolds its leading axes, all except the last `kept`.
std::string start_of(const OperandDesc& operand, int kept) {
  std::string text = "0";
  int64_t below = 1;
  for (int axis = operand.shape.rank() - kept; axis-- > 0;) {
    const int64_t extent = operand.shape[axis];
    text += fmt::format(" + batch / {} % {} * (i64){}", below, std::max<int64_t>(extent, 1),
                        operand.strides[static_cast<size_t>(axis)]);
    below *= std::max<int64_t>(extent, 1);
  }
  return "(" + text + ")";
}

/// For a value with one element for each query, [..., T]: the element of query `row`, counted through all
/// batches.
std::string row_index(const OperandDesc& operand) {
  std::string text = "0";
  int64_t below = 1;
  for (int axis = operand.shape.rank(); axis-- > 0;) {
    const int64_t extent = std::max<int64_t>(operand.shape[axis], 1);
    text += fmt::format(" + (row) / {} % {} * (i64){}", below, extent,
                        operand.strides[static_cast<size_t>(axis)]);
    below *= extent;
  }
  return "(" + text + ")";
}

/// The longest vector of at most 16 bytes of a row's features that all rows are aligned to.
int64_t vector_of(const OperandDesc& operand) {
  const auto size = static_cast<int64_t>(size_of(operand.dtype));
  int64_t vector = 16 / size;
  const auto fits = [&](int64_t v) {
    for (size_t axis = 0; axis + 1 < operand.strides.size(); ++axis)
      if (operand.strides[axis] % v != 0) return false;
    return operand.shape[-1] % v == 0 && operand.alignment % (v * size) == 0;
  };
  while (vector > 1 && (operand.strides.back() != 1 || !fits(vector))) vector /= 2;
  return vector;
}

}  // namespace

int64_t AttentionFootprint::bytes(const AttentionPoint& point) const {
  int64_t all = 0;
  const auto add = [&](int64_t elements) { all += local_array(elements * number_bytes); };
  for (int64_t i = 0; i < other_numbers; ++i) add(point.block);
  if (point.side == 0) {
    for (const int64_t features : compared) add(features * point.block);
    for (const int64_t features : inside) add(features * point.block);
    return all;
  }
  for (const int64_t features : compared) add(features * (point.rows + 1));
  for (const int64_t features : other) add(features * (point.block + 1));
  for (int64_t i = 0; i < own_numbers; ++i) add(point.rows);
  add(point.rows * (point.block + 1));  // weights
  return all;
}

AttentionText attention_text(const KernelRequest& request, Kind kind) {
  std::vector<std::string> names = inputs_of(kind);
  const bool masked = request.inputs.size() > names.size();
  if (masked) names.emplace_back("mask");
  const DType dtype = request.inputs[0].dtype;
  const int64_t queries = request.inputs[0].shape[-2], keys = request.inputs[1].shape[-2],
                d = request.inputs[0].shape[-1];
  // The features of v and the result; 1 if there is neither.
  const int64_t e = kind == Kind::lse ? 1 : request.inputs[2].shape[-1];
  const int64_t batches = request.inputs[0].shape.size() / (queries * d);

  AttentionProblem problem{.kind = kind,
                           .dtype = dtype,
                           .batches = batches,
                           .queries = queries,
                           .keys = keys,
                           .d = d,
                           .e = e,
                           .causal = request.attrs.flag("causal"),
                           .scale = request.attrs.number("scale")};
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
      (names[i] == "lse" ? problem.lse : problem.delta) = {row_index(operand), operand.dtype};
      continue;
    }
    (names[i] == "q"   ? problem.q
     : names[i] == "k" ? problem.k
     : names[i] == "v" ? problem.v
     : names[i] == "g" ? problem.g
                       : problem.mask) = {names[i], start_of(operand, 2),
                                          operand.strides[operand.strides.size() - 2], operand.strides.back(),
                                          vector_of(operand)};
    std::string prefix = names[i];
    std::ranges::transform(prefix, prefix.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
    defines.set(prefix + "_START", start_of(operand, 2))
        .set(prefix + "_ROW", operand.strides[operand.strides.size() - 2])
        .set(prefix + "_FEATURE", operand.strides.back());
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const std::string out = fmt::format("STORED({})", language_name(request.outputs[i].dtype));
    const char* const name = i == 0 ? "out" : "out_2";
    parameters += fmt::format("{}BUFFER({}, {})", i == 0 ? "" : ", ", out, name);
    binds += fmt::format("BIND({}, {}); ", out, name);
    arguments.push_back({static_cast<int>(request.inputs.size() + i)});
    const OperandDesc& written = request.outputs[i];
    const std::string prefix = i == 0 ? "OUT" : "OUT_2";
    defines.set_dtype(prefix + "_DTYPE", written.dtype);
    const bool is_matrix = kind != Kind::lse && written.shape.rank() == request.inputs[0].shape.rank();
    if (is_matrix)
      (i == 0 ? problem.out : problem.out_2) = {
          name, start_of(written, 2), written.strides[written.strides.size() - 2], 1, vector_of(written)};
    // A number of each query: one after another.
    defines
        .set(prefix + "_START", is_matrix ? start_of(written, 2) : fmt::format("(batch * {})", problem.own()))
        .set(prefix + "_ROW", is_matrix ? written.strides[written.strides.size() - 2] : 1);
  }
  problem.with_lse = kind == Kind::forward && request.outputs.size() > 1;
  const bool f64 = dtype == DType::f64;
  defines.set_dtype("DTYPE", dtype)
      .set("WITH_LSE", problem.with_lse)
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

  problem.parameters = parameters;
  problem.binds = binds;
  problem.arguments = arguments;
  // What the templates keep in local memory.
  const bool second = problem.has_second(), of_rows = kind != Kind::lse,
             both = kind == Kind::grad_kv || kind == Kind::grad_qkv;
  AttentionFootprint footprint{.compared = {d},
                               .other = {d},
                               .own_numbers = kind == Kind::forward || !of_rows ? 2 : 0,
                               .other_numbers = problem.by_keys() ? 1 + second : 0,
                               .number_bytes = f64 ? 8 : 4};
  if (second) footprint.compared.push_back(e);
  if (of_rows) footprint.other.push_back(e);
  if (of_rows && second) footprint.inside.push_back(d);
  if (of_rows && (!second || both)) footprint.inside.push_back(e);
  return {std::move(problem), std::move(footprint), std::move(defines)};
}

GpuLaunch attention_launch(const AttentionText& text, const AttentionPoint& point) {
  const AttentionProblem& problem = text.problem;
  const bool tiled = point.side > 0;
  const std::string entry = tiled ? "attention_tiles" : "attention_rows";
  Defines all = text.defines;
  all.set("PARAMETERS", problem.parameters)
      .set("BINDS", problem.binds)
      .set(tiled ? "OWN" : "ROWS", point.rows)
      .set("BLOCK", point.block);
  if (tiled) all.set("SIDE", point.side);
  return {.name = entry,
          .source = all.text() + std::string(template_text("attention_operands")) +
                    std::string(template_text(entry)),
          .groups = {problem.batches * ceil_div(problem.own(), point.rows_of_group()), 1, 1},
          .group_size = {point.items, 1, 1},
          .local_bytes = text.footprint.bytes(point),
          .arguments = problem.arguments};
}

std::vector<GpuCandidate> attention_candidates(const KernelRequest& request, Kind kind,
                                               const GpuTraits& traits) {
  const AttentionText text = attention_text(request, kind);
  std::vector<GpuCandidate> candidates = flash_candidates(text.problem, traits);
  std::vector<AttentionPoint> points = traits.grain->points->attention(text.problem, text.footprint, traits);
  if (points.empty()) points.push_back({1, 1, std::min(traits.grain->items, traits.max_group_size)});
  for (const AttentionPoint& point : points)
    candidates.push_back(
        {.name = fmt::format("flash attention {}x{}", point.rows_of_group(), point.block),
         .parameters = {{"rows", point.rows}, {"block", point.block}, {"items", point.items}},
         .launches = {attention_launch(text, point)}});
  return candidates;
}

namespace {

Kind kind_of(const KernelRequest& request) {
  const std::string& name = request.op->name;
  const size_t others = request.with.size();
  if (name == "attention_lse") return Kind::lse;
  if (name == "attention_grad_q") return others == 2 ? Kind::grad_qkv : Kind::grad_q;
  if (name == "attention_grad_k") return others == 1 ? Kind::grad_kv : Kind::grad_k;
  return name == "attention_grad_v" ? Kind::grad_v : Kind::forward;
}

std::vector<GpuCandidate> attention(const KernelRequest& request, const GpuTraits& traits) {
  if (request.output().shape.size() == 0) return {{.name = "nothing"}};
  const Kind kind = kind_of(request);
  return kind == Kind::grad_qkv ? attention_gradients(request, traits)
                                : attention_candidates(request, kind, traits);
}

// The result with the log-sum-exp, and the gradients by k and v, always. All three gradients where that may
// be faster than two kernels.
bool attention_together(const KernelRequest& request, const GpuTraits& traits) {
  const Kind kind = kind_of(request);
  return kind == Kind::grad_qkv ? has_attention_gradients(request, traits)
                                : kind == Kind::grad_kv || kind == Kind::forward;
}

// attention_rows keeps at least one other row in local memory: its d and e features, both in two layouts, and
// two numbers.
int64_t least_local_bytes(int64_t d, int64_t e, DType dtype) {
  return (2 * (d + e) + 2) * (dtype == DType::f64 ? 8 : 4);
}

// For no keys or no features, the decomposition gives the right result.
bool serves_attention(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                      const GpuTraits& traits) {
  const auto empty = [](const TensorType& type) { return type.shape.size() == 0; };
  const bool has_values = output.shape.rank() == inputs[0].shape.rank();  // or it is the log-sum-exp
  const int64_t d = inputs[0].shape[-1], e = has_values ? inputs[2].shape[-1] : d;
  if (least_local_bytes(d, e, inputs[0].dtype) > traits.local_bytes) return false;
  return serves_floats(inputs, output, attrs, traits) &&
         (output.shape.size() == 0 || std::ranges::none_of(inputs, empty));
}

[[maybe_unused]] const bool attention_registered =
    register_template({.ops = {"scaled_dot_product_attention", "attention_lse", "attention_grad_q",
                               "attention_grad_k", "attention_grad_v"},
                       .candidates = attention,
                       .serves = serves_attention,
                       .together = attention_together,
                       .strided = true});

}  // namespace

}  // namespace athanor::gpu
