// Checks attention by matrix units: candidates of every op, against the op's reference.
#pragma once
#include <cmath>
#include <functional>

#include "gpu_kernels.h"
#include "tests/support/attention_case.h"

namespace athanor::testing {

struct FlashType {
  DType dtype;
  bool tf32 = false;  // factors of f32 may be rounded to tf32
};

struct FlashCase {
  Shape leading;
  int64_t queries, keys, d, e;
  bool causal = false, masked = false;
  double scale = 0;  // 0: the default for d features
  bool together = true;
  int compute_units = 0;  // 0: the device's; few, so that a group has several chunks of keys
  bool with_lse = false;  // the result's kernel also stores the log-sum-exp
};

inline bool is_flash(const GpuCandidate& candidate) { return candidate.parameters.contains("own_rows"); }

/// A device, with the traits that its candidates suit. `change`: changes each kernel. `slow`: only one
/// candidate for each problem, whose waves all multiply each time.
struct FlashDevice {
  gpu::GpuDevice* device;
  GpuTraits traits;
  std::function<void(GpuLaunch&)> change = {};
  bool slow = false;
  /// If given: the candidates instead of those that the device is offered.
  std::function<std::vector<GpuCandidate>(const KernelRequest&)> candidates = {};
};

/// Compares an output with its op's reference. A query that sees no key has NaN as its result, and minus
/// infinity as its log-sum-exp.
inline void expect_near(const std::vector<Run>& runs, const std::vector<double>& want, bool is_lse,
                        FlashType type, const std::string& key) {
  double largest = 0;
  for (const double x : want)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  const double tolerance = type.tf32                  ? 4e-3
                           : type.dtype == DType::f32 ? 1e-5
                           : type.dtype == DType::f16 ? 2e-3
                                                      : 1.6e-2;
  for (const Run& run : runs)
    for (size_t i = 0; i < want.size(); ++i) {
      const double got = run.values[i];
      if (got == want[i] || (std::isnan(got) && std::isnan(want[i]))) continue;
      // A mask makes the log-sum-exp of one row as large as -3e38, and not that of the next.
      ASSERT_NEAR(got, want[i], tolerance * (is_lse ? std::max(1.0, std::abs(want[i])) : largest))
          << run.candidate << " element " << i << " " << key;
      ASSERT_TRUE(std::isfinite(want[i])) << run.candidate << " element " << i << " " << key;
    }
}

/// Runs the candidates and compares each output with its op's reference.
inline void check_flash(const FlashDevice& on, const std::vector<const Op*>& ops, const Attrs& attrs,
                        const std::vector<TestOperand>& inputs, const std::vector<OperandDesc>& outputs,
                        FlashType type, int compute_units) {
  KernelRequest request{ops[0], attrs, {}, outputs, {}};
  if (type.tf32) request.compute = ComputeType::tf32;
  request.with.assign(ops.begin() + 1, ops.end());
  std::vector<RefArray> arrays;
  for (const TestOperand& input : inputs) {
    request.inputs.push_back(input.desc);
    arrays.emplace_back(input.desc.shape);
    arrays.back().data = input.values;
  }
  GpuTraits traits = on.traits;
  if (compute_units > 0) traits.compute_units = compute_units;
  auto candidates = on.candidates ? on.candidates(request) : candidates_for(request, traits);
  EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed: " << request.key();
  std::erase_if(candidates, [](const GpuCandidate& one) {
    const bool is_pair = one.launches.size() > 1 && !one.parameters.contains("parts");
    return !is_flash(one) || is_pair;  // those of pairs are checked one by one
  });
  if (on.slow)
    std::erase_if(candidates, [](const GpuCandidate& one) {
      return one.launches.front().source.find("if (wave < ") != std::string::npos;
    });
  std::vector<std::vector<Run>> runs(outputs.size());
  for (GpuCandidate& candidate : on.slow ? next_of(std::move(candidates)) : reduced(std::move(candidates))) {
    for (GpuLaunch& launch : candidate.launches)
      if (on.change) on.change(launch);
    auto found = outputs_on(*on.device, candidate, inputs, outputs);
    if (candidate.parameters.contains("parts")) {
      EXPECT_EQ(outputs_on(*on.device, candidate, inputs, outputs), found)
          << candidate.name << ": other bits";
    }
    for (size_t o = 0; o < outputs.size(); ++o)
      runs[o].push_back({candidate.name + " of " + ops[o]->name, std::move(found[o])});
  }
  // All three gradients of many features need more local memory than some devices have.
  if (ops.size() == 3 && outputs[0].shape[-1] > 64 && runs[0].empty()) return;
  for (size_t o = 0; o < outputs.size(); ++o) {
    EXPECT_FALSE(runs[o].empty()) << request.key();
    const bool is_lse = ops[o]->name == "attention_lse";
    std::vector<RefArray> taken = arrays;
    if (is_lse && o > 0) taken.erase(taken.begin() + 2);  // it takes no values
    expect_near(runs[o], ops[o]->reference(taken, attrs).data, is_lse, type, request.key());
  }
}

/// With strides of the inputs, results have gaps, too.
inline void check_flash(const FlashDevice& on, FlashType type, const FlashCase& c, const Ints& strides = {}) {
  const DType dtype = type.dtype;
  const double scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.d));
  const Attrs attrs = {{"causal", c.causal}, {"scale", scale}};
  const Shape q = with(c.leading, c.queries, c.d), k = with(c.leading, c.keys, c.d),
              v = with(c.leading, c.keys, c.e), y = with(c.leading, c.queries, c.e),
              rows = with(c.leading, c.queries), scores = with(c.leading, c.queries, c.keys);
  const auto output = [&](DType stored, const Shape& shape) {
    const bool gaps = !strides.empty() && shape != rows;
    return gaps ? part_of_three(stored, shape) : OperandDesc{stored, shape, {}, contiguous_strides(shape)};
  };
  const TestOperand vq = view(dtype, q, 1, strides), vk = view(dtype, k, 2, strides),
                    vv = view(dtype, v, 3, strides), vg = view(dtype, y, 4, strides),
                    // Finite, also of rows that see nothing: with their -inf, gradients would be NaN.
      lse = view(DType::f32, rows, 5), delta = view(DType::f32, rows, 6);
  const auto run = [&](const std::vector<std::string>& names, std::vector<TestOperand> inputs,
                       const std::vector<OperandDesc>& outputs) {
    if (c.masked) inputs.push_back(view(dtype, scores, 9));
    std::vector<const Op*> ops;
    for (const std::string& name : names) ops.push_back(&find_op(name));
    check_flash(on, ops, attrs, inputs, outputs, type, c.compute_units);
  };
  const std::vector<TestOperand> all{vq, vk, vv, vg, lse, delta};
  if (dtype != DType::f32 && !on.candidates)
    run({"attention_grad_q", "attention_grad_k", "attention_grad_v"}, all,
        {output(dtype, q), output(dtype, k), output(dtype, v)});
  if (c.compute_units > 0) return;
  if (c.with_lse)
    run({"scaled_dot_product_attention", "attention_lse"}, {vq, vk, vv},
        {output(dtype, y), output(DType::f32, rows)});
  else
    run({"scaled_dot_product_attention"}, {vq, vk, vv}, {output(dtype, y)});
  run({"attention_lse"}, {vq, vk}, {output(DType::f32, rows)});
  run({"attention_grad_q"}, all, {output(dtype, q)});
  run({"attention_grad_k", "attention_grad_v"}, all, {output(dtype, k), output(dtype, v)});
  if (c.together) return;
  run({"attention_grad_k"}, all, {output(dtype, k)});
  run({"attention_grad_v"}, all, {output(dtype, v)});
}

/// The lowest number of the type as a mask, as in many models: a row that it hides as a whole weighs all keys
/// alike. Infinity hides others, and of the last row all.
inline void check_hidden_rows(const FlashDevice& on, FlashType type) {
  constexpr int64_t queries = 5, keys = 40, d = 32;
  const double hidden = type.dtype == DType::f16    ? -65504
                        : type.dtype == DType::bf16 ? -3.3895313892515355e38
                                                    : -3.4028234663852886e38;
  std::vector<double> mask(queries * keys);
  for (int64_t key = 0; key < keys; ++key) {
    mask[static_cast<size_t>(key)] = hidden;
    mask[static_cast<size_t>(keys + key)] = key < 3 ? 0 : hidden;
    mask[static_cast<size_t>(2 * keys + key)] = key % 2 == 0 ? -INFINITY : hidden;
    mask[static_cast<size_t>(4 * keys + key)] = -INFINITY;
  }
  const Shape q{queries, d}, k{keys, d};
  const std::vector<TestOperand> inputs = {view(type.dtype, q, 1), view(type.dtype, k, 2),
                                           view(type.dtype, k, 3),
                                           make_value(type.dtype, {queries, keys}, mask)};
  const Attrs attrs = {{"causal", false}, {"scale", 0.25}};
  const OperandDesc y{type.dtype, q, {}, contiguous_strides(q)}, lse{DType::f32, {queries}, {}, {1}};
  const Op &result = find_op("scaled_dot_product_attention"), &log_sum_exp = find_op("attention_lse");
  check_flash(on, {&result}, attrs, inputs, {y}, type, 0);
  check_flash(on, {&result, &log_sum_exp}, attrs, inputs, {y, lse}, type, 0);
}

}  // namespace athanor::testing
