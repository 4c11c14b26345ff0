// The CPU's attention against its references: odd shapes, masks, strides, types, and divisions of the work.
#include <limits>

#include "athanor/base/threads.h"
#include "cpu_kernels.h"
#include "tests/support/attention_case.h"

namespace athanor::testing {
namespace {

/// The inputs of the gradients: q, k, v, g, lse, delta and perhaps a mask. The others take some of them.
std::vector<TestOperand> operands(DType dtype, const AttentionCase& c) {
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  unsigned seed = 0;
  const auto given = [&](DType type, const Shape& shape) { return random_value(type, shape, ++seed); };
  std::vector<TestOperand> all{
      given(dtype, with(c.leading, c.queries, c.d)), given(dtype, with(c.leading, c.keys, c.d)),
      given(dtype, with(c.leading, c.keys, c.e)),    given(dtype, with(c.leading, c.queries, c.e)),
      given(wide, with(c.leading, c.queries)),       given(wide, with(c.leading, c.queries))};
  // A mask hides some keys, and lowers the scores of others.
  if (c.masked) {
    const Shape shape = with(c.leading, c.queries, c.keys);
    std::vector<double> mask = random_values(shape.size(), 9);
    for (double& value : mask)
      if (value > 0.7) value = -std::numeric_limits<double>::infinity();
    all.push_back(make_value(dtype, shape, mask));
  }
  return all;
}

KernelRequest attention_request(const std::vector<std::string>& names, const std::vector<TestOperand>& inputs,
                                const std::vector<OperandDesc>& outputs, const AttentionCase& c) {
  KernelRequest request{&find_op(names.front()), {{"causal", c.causal}, {"scale", c.scale}}, {}, outputs, {}};
  for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
  for (size_t i = 1; i < names.size(); ++i) request.with.push_back(&find_op(names[i]));
  return request;
}

/// The results of the only candidate, row-major. Memory is poisoned before.
std::vector<std::vector<double>> results_of(const KernelRequest& request, std::vector<TestOperand>& inputs) {
  const std::vector<Candidate> candidates = cpu().candidates(0, request);
  EXPECT_EQ(candidates.size(), 1U) << request.key();
  if (candidates.empty()) return {};
  std::vector<std::byte> scratch(candidates[0].scratch_bytes + 64, std::byte{0x7f});
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, candidates[0].scratch_bytes, aligned, space);
  std::vector<TestOperand> outputs;
  std::vector<void*> buffers;
  for (TestOperand& input : inputs) buffers.push_back(input.address());
  for (const OperandDesc& output : request.outputs) {
    outputs.push_back(make_value(output.dtype, output.shape,
                                 std::vector<double>(static_cast<size_t>(output.shape.size())), {},
                                 output.strides));
    std::memset(outputs.back().memory.data(), 0x7f, outputs.back().memory.size());
  }
  for (TestOperand& output : outputs) buffers.push_back(output.address());
  buffers.push_back(aligned);
  const auto& kernel = dynamic_cast<const cpu::CpuKernel&>(*candidates[0].kernel);
  for (int launch = 0; launch < 2; ++launch) kernel.run(buffers);  // the first must leave nothing behind
  std::vector<std::vector<double>> results;
  for (TestOperand& output : outputs) {
    HostArray host(output.desc.dtype, output.desc.shape);
    const size_t element = size_of(output.desc.dtype);
    for (int64_t i = 0; i < output.desc.shape.size(); ++i)
      std::memcpy(host.bytes.data() + static_cast<size_t>(i) * element,
                  static_cast<std::byte*>(output.address()) +
                      offset_of(output.desc, i) * static_cast<int64_t>(element),
                  element);
    results.push_back(to_doubles(host));
  }
  return results;
}

OperandDesc dense_operand(DType dtype, const Shape& shape) {
  return {dtype, shape, {}, contiguous_strides(shape)};
}

void expect_references(const std::vector<std::string>& names, std::vector<TestOperand> inputs,
                       const std::vector<OperandDesc>& outputs, const AttentionCase& c, double tolerance) {
  const KernelRequest request = attention_request(names, inputs, outputs, c);
  std::vector<RefArray> arrays;
  for (const TestOperand& input : inputs) {
    arrays.emplace_back(input.desc.shape);
    arrays.back().data = input.values;
  }
  for (const int threads : {1, 2, 5}) {
    set_cpu_threads(threads);
    const auto results = results_of(request, inputs);
    ASSERT_EQ(results.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      std::vector<RefArray> taken = arrays;
      if (i > 0 && names[i] == "attention_lse") taken.erase(taken.begin() + 2);  // takes no values
      expect_all_near({{names[i], results[i]}}, find_op(names[i]).reference(taken, request.attrs).data,
                      tolerance, request.key() + ", " + std::to_string(threads) + " threads");
    }
  }
  set_cpu_threads(0);
}

class CpuAttention : public ::testing::TestWithParam<DType> {
 protected:
  static void check(const AttentionCase& c) {
    const DType dtype = GetParam(), wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    const double tolerance = 32 * tolerance_of(dtype);
    const std::vector<TestOperand> all = operands(dtype, c);
    const auto some = [&](std::initializer_list<size_t> which) {
      std::vector<TestOperand> inputs;
      for (const size_t i : which) inputs.push_back(all[i]);
      if (c.masked) inputs.push_back(all[6]);
      return inputs;
    };
    const OperandDesc out = dense_operand(dtype, all[3].desc.shape),
                      lse = dense_operand(wide, all[4].desc.shape);
    expect_references({"scaled_dot_product_attention"}, some({0, 1, 2}), {out}, c, tolerance);
    expect_references({"scaled_dot_product_attention", "attention_lse"}, some({0, 1, 2}), {out, lse}, c,
                      tolerance);
    expect_references({"attention_lse"}, some({0, 1}), {lse}, c, tolerance);
    const std::string q = "attention_grad_q", k = "attention_grad_k", v = "attention_grad_v";
    const OperandDesc dq = dense_operand(dtype, all[0].desc.shape),
                      dk = dense_operand(dtype, all[1].desc.shape),
                      dv = dense_operand(dtype, all[2].desc.shape);
    const std::vector<TestOperand> inputs = some({0, 1, 2, 3, 4, 5});
    expect_references({q, k, v}, inputs, {dq, dk, dv}, c, tolerance);
    expect_references({k, v}, inputs, {dk, dv}, c, tolerance);
    expect_references({q, k}, inputs, {dq, dk}, c, tolerance);
    expect_references({q}, inputs, {dq}, c, tolerance);
    expect_references({k}, inputs, {dk}, c, tolerance);
    expect_references({v}, inputs, {dv}, c, tolerance);
  }
};

// One row and one feature; panels that are not full; more keys than a block has rows; more queries than keys.
TEST_P(CpuAttention, OddShapes) {
  check({{}, 1, 1, 1, 1});
  check({{2, 3}, 17, 33, 5, 7});
  check({{3}, 70, 3, 8, 4});
  check({{1, 2}, 5, 129, 16, 12});
  check({{7}, 100, 200, 9, 65});
}

TEST_P(CpuAttention, CausalAndMasked) {
  check({{2}, 19, 19, 4, 4, true});
  check({{2}, 5, 40, 4, 3, true, true});
  check({{2, 2}, 131, 131, 5, 6, true});
  check({{2}, 70, 150, 5, 4, true});
  check({{}, 33, 117, 6, 6, false, true});
  check({{2}, 5, 150, 4, 4, true, true});
  for (const double scale : {-0.3, 0.0, 1e-60}) check({{2}, 40, 40, 8, 8, true, false, scale});
}

TEST_P(CpuAttention, MasksOfHiddenKeysAreNotLookedAt) {
  const AttentionCase c{{2}, 40, 40, 4, 4, true, true};
  std::vector<TestOperand> all = operands(GetParam(), c);
  for (int64_t i = 0; i < 2 * 40 * 40; ++i)
    if (i % 40 > i / 40 % 40)
      all[6].values[static_cast<size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
  all[6] = make_value(GetParam(), all[6].desc.shape, all[6].values);
  const OperandDesc out = dense_operand(GetParam(), {2, 40, 4});
  expect_references({"scaled_dot_product_attention"}, {all[0], all[1], all[2], all[6]}, {out}, c,
                    32 * tolerance_of(GetParam()));
  expect_references({"attention_grad_q", "attention_grad_k", "attention_grad_v"}, all, {out, out, out}, c,
                    32 * tolerance_of(GetParam()));
}

// The first block of keys is hidden from all queries.
TEST_P(CpuAttention, AHiddenBlock) {
  const AttentionCase c{{}, 9, 250, 4, 4, false, true};
  std::vector<TestOperand> all = operands(GetParam(), c);
  for (int64_t i = 0; i < 9 * 250; ++i)
    if (i % 250 < 200) all[6].values[static_cast<size_t>(i)] = -std::numeric_limits<double>::infinity();
  all[6] = make_value(GetParam(), all[6].desc.shape, all[6].values);
  expect_references({"scaled_dot_product_attention"}, {all[0], all[1], all[2], all[6]},
                    {dense_operand(GetParam(), {9, 4})}, c, 32 * tolerance_of(GetParam()));
}

// The first queries see no key. Their results are NaN, as those of the softmax are.
TEST_P(CpuAttention, QueriesThatSeeNoKey) {
  const AttentionCase c{{2}, 40, 7, 4, 4, true};
  const std::vector<TestOperand> all = operands(GetParam(), c);
  const DType wide = GetParam() == DType::f64 ? DType::f64 : DType::f32;
  expect_references({"scaled_dot_product_attention", "attention_lse"}, {all[0], all[1], all[2]},
                    {dense_operand(GetParam(), all[3].desc.shape), dense_operand(wide, all[4].desc.shape)}, c,
                    32 * tolerance_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, CpuAttention,
                         ::testing::Values(DType::f32, DType::f64, DType::f16, DType::bf16),
                         [](const auto& type) { return std::string(to_string(type.param)); });

// q, k and v are parts of one tensor [batch, rows, 3, heads, features], a mask is the same for all heads, and
// results are written in the order [batch, rows, heads, features].
TEST(CpuAttentionStrides, AreReadAndWrittenWhereTheyLie) {
  const int64_t batch = 2, heads = 3, rows = 37, d = 8;
  const AttentionCase c{{batch, heads}, rows, rows, d, d, true, true};
  std::vector<TestOperand> all = operands(DType::f32, c);
  const Ints of_three{rows * 3 * heads * d, d, 3 * heads * d, 1}, of_one{rows * heads * d, d, heads * d, 1};
  for (size_t i = 0; i < 3; ++i)
    all[i] = make_value(DType::f32, all[i].desc.shape, all[i].values, {}, of_three);
  all[3] = make_value(DType::f32, all[3].desc.shape, all[3].values, {}, of_one);
  std::vector<double> mask = random_values(rows * rows, 20);
  std::vector<double> repeated;
  for (int64_t i = 0; i < batch * heads; ++i) repeated.insert(repeated.end(), mask.begin(), mask.end());
  all[6] = make_value(DType::f32, all[6].desc.shape, repeated, {}, {0, 0, rows, 1});
  const OperandDesc out{DType::f32, all[0].desc.shape, {}, of_one};
  expect_references({"scaled_dot_product_attention"}, {all[0], all[1], all[2], all[6]}, {out}, c, 1e-5);
  expect_references({"attention_grad_q", "attention_grad_k", "attention_grad_v"}, all, {out, out, out}, c,
                    1e-5);
}

TEST(CpuAttentionScores, DoNotOverflow) {
  const AttentionCase c{{}, 20, 300, 4, 4, false, false, 1};
  std::vector<TestOperand> all = operands(DType::f32, c);
  for (const size_t i : {0, 1}) {
    for (double& value : all[i].values) value *= 10;
    all[i] = make_value(DType::f32, all[i].desc.shape, all[i].values);
  }
  // Scores reach 400, whose exponential f32 does not have.
  expect_references({"scaled_dot_product_attention", "attention_lse"}, {all[0], all[1], all[2]},
                    {dense_operand(DType::f32, {20, 4}), dense_operand(DType::f32, {20})}, c, 1e-4);
}

// Threads share heads if these are few. Then queries' gradients come from a pass of their own.
TEST(CpuAttentionBits, DoNotDependOnHowHeadsAreShared) {
  const AttentionCase c{{4}, 120, 150, 24, 16, true, true};
  std::vector<TestOperand> all = operands(DType::f32, c);
  const std::vector<OperandDesc> outputs{dense_operand(DType::f32, {4, 120, 24}),
                                         dense_operand(DType::f32, {4, 150, 24}),
                                         dense_operand(DType::f32, {4, 150, 16})};
  const auto gradients = [&](int threads) {
    set_cpu_threads(threads);
    return results_of(
        attention_request({"attention_grad_q", "attention_grad_k", "attention_grad_v"}, all, outputs, c),
        all);
  };
  const auto alone = gradients(1);
  EXPECT_EQ(gradients(3), alone);
  EXPECT_EQ(gradients(9), alone);
  set_cpu_threads(0);
}

}  // namespace
}  // namespace athanor::testing
