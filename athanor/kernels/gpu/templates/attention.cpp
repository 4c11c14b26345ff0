// Attention and its gradients: by matrix units (flash_kernel.h), or without them (attention_kernel.h).
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/attention.h"
#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/points.h"
#include "athanor/kernels/gpu/templates/tile_text.h"
#include "athanor/kernels/prologue.h"

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

}  // namespace

/// Of the lengths with which an item has the fewest features, the longest.
int64_t AttentionPoint::vector(int64_t features) const {
  const auto all = [&](int64_t vector) { return vector * ceil_div(features, vector * side); };
  int64_t best = 4;
  for (const int64_t vector : {2, 1})
    if (all(vector) < all(best) && !(pairs() && vector == 1)) best = vector;
  return best;
}

int64_t AttentionPoint::vectors(int64_t features) const {
  return ceil_div(features, vector(features) * side);
}

int64_t attention_pitch(int64_t numbers) { return (ceil_div(numbers, 4) | 1) * 4; }

int64_t AttentionPoint::pitch(int64_t elements) const { return attention_pitch(registers(elements)); }

AttentionFootprint::AttentionFootprint(const AttentionProblem& problem)
    : compared{problem.d},
      other{problem.d},
      other_numbers(problem.by_keys() ? 1 + problem.has_second() : 0),
      number_bytes(problem.dtype == DType::f64 ? 8 : 4),
      softmax(!problem.is_grad()),
      weights(problem.kind != Kind::lse) {
  const bool second = problem.has_second(),
             both = problem.kind == Kind::grad_kv || problem.kind == Kind::grad_qkv;
  if (second) compared.push_back(problem.e);
  if (problem.kind == Kind::lse) return;
  other.push_back(problem.e);
  if (second) inside.push_back(problem.d);
  if (!second || both) inside.push_back(problem.e);
}

int64_t AttentionFootprint::bytes(const AttentionPoint& point) const {
  int64_t all = 0;
  const auto add = [&](int64_t elements) { all += local_array(elements * number_bytes); };
  if (point.side == 0) {
    for (int64_t i = 0; i < other_numbers; ++i) add(point.block);
    for (const int64_t features : compared) add(features * point.block);
    for (const int64_t features : inside) add(features * point.block);
    return all;
  }
  const int64_t of_weights = weights ? point.rows * point.pitch(point.block) : 0;
  for (const int64_t features : compared) add(point.rows * point.pitch(features));
  for (size_t i = 0; i < other.size(); ++i) {
    const int64_t numbers = point.block * point.pitch(other[i]);
    add(softmax && i == 0 ? std::max(numbers, of_weights) : numbers);  // weights take the keys' memory
  }
  add(softmax ? point.rows * attention_pitch(point.side) : of_weights);
  return all;
}

AttentionProblem attention_problem(const KernelRequest& request, Kind kind) {
  std::vector<std::string> names = inputs_of(kind);
  if (request.own_inputs() > names.size()) names.emplace_back("mask");
  const int64_t queries = request.inputs[0].shape[-2], keys = request.inputs[1].shape[-2],
                d = request.inputs[0].shape[-1];
  AttentionProblem problem{.kind = kind,
                           .dtype = request.inputs[0].dtype,
                           .batches = request.inputs[0].shape.size() / (queries * d),
                           .queries = queries,
                           .keys = keys,
                           .d = d,
                           // Of v and the result; 1 if there is neither.
                           .e = kind == Kind::lse ? 1 : request.inputs[2].shape[-1],
                           .causal = request.attrs.flag("causal"),
                           .tf32 = request.compute == ComputeType::tf32,
                           .scale = request.attrs.number("scale")};
  const auto add = [&](const Parameter& parameter) {
    const auto& [name, type, argument] = parameter;
    problem.parameters += fmt::format("{}BUFFER({}, {})", problem.parameters.empty() ? "" : ", ", type, name);
    problem.binds += fmt::format("{}BIND({}, {});", problem.binds.empty() ? "" : " ", type, name);
    problem.arguments.push_back(argument);
  };
  problem.computed = attention_prologue(request);
  for (size_t i = 0; i < names.size(); ++i) {
    OperandDesc operand = request.inputs[i];
    GpuLaunch::Argument from{static_cast<int>(i)};
    if (i == 0 && problem.computed) {
      operand.dtype = problem.computed->dtype;
      operand.alignment = problem.computed->alignment;
      from = problem.computed->memory;
    }
    add({names[i], "const " + stored(operand.dtype), from});
    if (names[i] == "lse" || names[i] == "delta") {
      (names[i] == "lse" ? problem.lse : problem.delta) = {attention_position(operand, "row", 0),
                                                           operand.dtype};
      continue;
    }
    (names[i] == "q"   ? problem.q
     : names[i] == "k" ? problem.k
     : names[i] == "v" ? problem.v
     : names[i] == "g" ? problem.g
                       : problem.mask) = {names[i], attention_position(operand, "batch", 2),
                                          operand.strides[operand.strides.size() - 2], operand.strides.back(),
                                          attention_vector(operand)};
  }
  if (problem.computed)
    for (const Parameter& parameter : problem.computed->elements.parameters()) add(parameter);
  for (size_t i = 0; i <= request.with.size(); ++i) {
    const size_t number = i == 0 ? 0 : request.first_with() + i - 1;
    const OperandDesc& written = i == 0 ? request.output() : request.outputs[number];
    const GpuLaunch::Argument to{static_cast<int>(request.inputs.size() + number)};
    const char* const name = i == 0 ? "out" : "out_2";
    if (kind != Kind::lse && written.shape.rank() == request.inputs[0].shape.rank()) {
      AttentionProblem::Result& result = i == 0 ? problem.out : problem.out_2;
      result = i == 0 ? attention_result(request) : attention_result(written, name, to);
      for (const Parameter& parameter : result.parameters()) add(parameter);
    } else {
      add({name, stored(written.dtype), to});
      problem.lse.dtype = written.dtype;
    }
  }
  problem.with_lse = kind == Kind::forward && !request.with.empty();
  return problem;
}

std::vector<GpuCandidate> attention_candidates(const KernelRequest& request, Kind kind,
                                               const GpuTraits& traits) {
  const AttentionProblem problem = attention_problem(request, kind);
  std::vector<GpuCandidate> candidates = flash_candidates(problem, traits);
  if (problem.tf32) return candidates;
  // Lanes are slower than units behind a loop that computes q.
  if (problem.computed &&
      !flash_candidates(attention_problem(without_prologue(request), kind), traits).empty())
    return candidates;
  std::vector<AttentionPoint> points =
      traits.grain->points->attention(problem, AttentionFootprint(problem), traits);
  if (points.empty()) points.push_back({1, 1, std::min(traits.grain->items, traits.max_group_size)});
  for (const AttentionPoint& point : points)
    candidates.push_back(
        {.name = fmt::format("flash attention {}x{}", point.rows_of_group(), point.block),
         .parameters = {{"rows", point.rows}, {"block", point.block}, {"items", point.items}},
         .launches = {point.side > 0 ? AttentionTiles(problem, point).launch()
                                     : AttentionRows(problem, point).launch()}});
  return candidates;
}

Kind attention_kind(const KernelRequest& request) {
  const std::string& name = request.op->name;
  const size_t others = request.with.size();
  if (name == "attention_lse") return Kind::lse;
  if (name == "attention_grad_q") return others == 2 ? Kind::grad_qkv : Kind::grad_q;
  if (name == "attention_grad_k") return others == 1 ? Kind::grad_kv : Kind::grad_k;
  return name == "attention_grad_v" ? Kind::grad_v : Kind::forward;
}

namespace {

/// Whether kernels compute the request's epilogue: of rows, elementwise.
bool stores_epilogue(const KernelRequest& request, Kind kind) {
  if (!request.has_epilogue()) return true;
  const ResultEpilogue epilogue(request);
  return kind != Kind::lse && epilogue.fits() && epilogue.reductions().empty();
}

/// Whether kernels compute the request's prologue: q's for the result, because each group reads its queries
/// once. Keys and values are read by each group.
bool computes_prologue(const KernelRequest& request, Kind kind) {
  if (!request.prologue) return true;
  const OperandDesc& q = request.inputs[0];
  return kind == Kind::forward && request.prologue->input == 0 && q.dtype != DType::f64 &&
         q.strides.back() == 1 && attention_prologue(request).has_value();
}

std::vector<GpuCandidate> attention(const KernelRequest& request, const GpuTraits& traits) {
  if (request.output().shape.size() == 0) return {{.name = "nothing"}};
  const Kind kind = attention_kind(request);
  if (!stores_epilogue(request, kind) || !computes_prologue(request, kind)) return {};
  return kind == Kind::grad_qkv ? attention_gradients(request, traits)
                                : attention_candidates(request, kind, traits);
}

// The result with the log-sum-exp, and the gradients by k and v, always. All three gradients where that may
// be faster than two kernels.
bool attention_together(const KernelRequest& request, const GpuTraits& traits) {
  const Kind kind = attention_kind(request);
  return kind == Kind::grad_qkv ? has_attention_gradients(request, traits)
                                : kind == Kind::grad_kv || kind == Kind::forward;
}

// AttentionRows keeps at least one other row in local memory: its d and e features, both in two layouts, and
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
                       .tf32 = true,
                       .finishes = true,
                       .further = true,
                       .prologues = true,
                       .strided = true});

}  // namespace

}  // namespace athanor::gpu
