// Attention and its gradients.
#include <fmt/format.h>

#include "tests/support/candidates/candidates.h"
#include "tests/support/epilogues.h"
#include "tests/support/normalising_loop.h"

namespace athanor {
namespace {

// Kernels that a step has only if not all gradients are wanted, and one that takes little of its time.
void add_rest_of_attention(Writer& writer, DType dtype, const Shape& x, bool causal) {
  const Attrs attrs = {{"causal", causal}, {"scale", 0.125}};
  const Shape rows{x[0], x[1], x[2]};
  writer.add("attention_grad_k", attrs, dtype, {x, x, x, x, rows, rows}, x);
  writer.add("attention_grad_v", attrs, dtype, {x, x, x, x, rows, rows}, x);
  writer.add("attention_lse", attrs, dtype, {x, x}, rows);
}

/// Attention with a fourth input, like q, k and v.
KernelRequest attention_of(const OperandDesc& x, bool causal) {
  return {&find_op("scaled_dot_product_attention"),
          {{"causal", causal}, {"scale", 0.125}},
          {x, x, x, x},
          {x},
          {}};
}

/// Attention whose kernels store the sigmoid of the result times a matrix like it, and not the result.
void add_gated_attention(Writer& writer, DType dtype, const Shape& shape, bool causal) {
  const OperandDesc x = whole({dtype, shape, {}});
  KernelRequest gated = attention_of(x, causal);
  gated.epilogue = testing::program_of({.activation = "sigmoid", .gate = true}, gated);
  gated.unstored = x;
  writer.add(gated, to_string(dtype), "gated: ");
}

/// Attention whose kernels normalise the queries when they read them.
void add_normalised_attention(Writer& writer, DType dtype, const Shape& shape, bool causal) {
  const int64_t features = shape[-1], rows = shape.size() / features;
  KernelRequest request = attention_of(whole({dtype, shape, {}}), causal);
  request.prologue = Prologue{0, normalising_loop({1, rows, features}, dtype, dtype)};
  add_norm(request, rows, features, dtype);
  writer.add_computed(request);
}

}  // namespace

void add_attention(Writer& writer, DType dtype, const Shape& x, bool causal, ComputeType compute,
                   const std::string& title) {
  const Attrs attrs = {{"causal", causal}, {"scale", 0.125}};
  const Shape rows{x[0], x[1], x[2]};
  const auto add = [&](const char* op, const std::vector<Shape>& inputs,
                       const std::vector<std::string>& with = {}) {
    writer.add(op, attrs, dtype, inputs, x, with, title, compute);
  };
  add("scaled_dot_product_attention", {x, x, x});
  add("attention_grad_q", {x, x, x, x, rows, rows});
  add("attention_grad_k", {x, x, x, x, rows, rows}, {"attention_grad_v"});
  add("attention_grad_q", {x, x, x, x, rows, rows}, {"attention_grad_k", "attention_grad_v"});
}

void add_attentions(Writer& writer) {
  for (const bool causal : {false, true}) {
    add_attention(writer, DType::f32, {4, 8, 200, 64}, causal);
    add_rest_of_attention(writer, DType::f32, {4, 8, 200, 64}, causal);
  }
  if (writer.takes_f32(true)) add_attention(writer, DType::f32, {4, 8, 200, 64}, true, ComputeType::tf32);
  add_attention(writer, DType::f16, {4, 8, 200, 64}, true);
  add_rest_of_attention(writer, DType::f16, {4, 8, 200, 64}, true);
  add_attention(writer, DType::f16, {4, 8, 200, 128}, false);
  add_attention(writer, DType::bf16, {4, 8, 200, 64}, false);
  add_gated_attention(writer, DType::f32, {4, 8, 200, 64}, false);
  add_gated_attention(writer, DType::f16, {4, 8, 200, 64}, true);
  add_gated_attention(writer, DType::bf16, {4, 8, 200, 128}, false);
  for (const DType dtype : {DType::f32, DType::f16})
    add_normalised_attention(writer, dtype, {4, 8, 200, 64}, true);
}

void write_attention(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, false);
  for (const int64_t features : {64, 128})
    add_attention(writer, DType::f16, {8, 12, 1024, features}, true, ComputeType::by_dtypes,
                  fmt::format("heads of {}: ", features));
  writer.finish();
}

}  // namespace athanor
