// How a trial shows that a kernel is less exact than required.
#include "athanor/kernels/trial.h"
#include "athanor/kernels/host_result.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/ops/conv_problem.h"

namespace athanor {
namespace {

OperandDesc matrix(int64_t rows, int64_t columns) {
  const Shape shape{1, rows, columns};
  return {DType::f32, shape, {}, contiguous_strides(shape)};
}

/// A matrix whose columns are consecutive in memory.
OperandDesc transposed(int64_t rows, int64_t columns) {
  OperandDesc operand = matrix(rows, columns);
  operand.strides = {rows * columns, 1, rows};
  return operand;
}

KernelRequest request_of(const char* op, Attrs attrs, std::vector<OperandDesc> inputs, OperandDesc output) {
  return {.op = &find_op(op),
          .attrs = std::move(attrs),
          .inputs = std::move(inputs),
          .outputs = {std::move(output)},
          .epilogue = {}};
}

/// The nearest number with 10 bits of mantissa.
float in_tf32(float x) {
  constexpr uint32_t dropped = 13;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t half = (1U << (dropped - 1)) - 1 + (bits >> dropped & 1);
  return std::bit_cast<float>((bits + half) >> dropped << dropped);
}

/// The host's kernel, on operands rounded to tf32.
class InTf32 final : public Kernel {
 public:
  InTf32(std::shared_ptr<const Kernel> exact, size_t operands)
      : exact_(std::move(exact)), operands_(operands) {}

  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    std::vector<Binding> rounded(buffers.begin(), buffers.end());
    std::vector<std::shared_ptr<Storage>> kept;
    for (Binding& buffer : std::span(rounded).first(operands_)) {
      const size_t bytes = buffer.storage->bytes();
      std::vector<float> numbers(bytes / sizeof(float));
      buffer.storage->read(numbers.data(), 0, bytes);
      std::ranges::transform(numbers, numbers.begin(), in_tf32);
      kept.push_back(allocate(Device{}, bytes));
      kept.back()->write(numbers.data(), 0, bytes);
      buffer = {kept.back().get(), 0};
    }
    exact_->enqueue(queue, rounded, site);
    queue.finish();
  }

 private:
  std::shared_ptr<const Kernel> exact_;
  size_t operands_;
};

/// All kernels of the host must agree on the request, and the same kernels in tf32 must not.
void expect_tf32_is_seen(const KernelRequest& request) {
  const TrialResults expected = host_result(request);
  auto candidates = backend_of(Device{}).candidates(0, request);
  ASSERT_FALSE(candidates.empty()) << request.key();
  Trial trial(Device{}, request);
  for (const Candidate& candidate : candidates) {
    EXPECT_TRUE(agree(expected, trial.result(candidate), request)) << candidate.name << ", " << request.key();
    Candidate rounding = candidate;
    rounding.kernel = std::make_shared<InTf32>(candidate.kernel, request.inputs.size());
    EXPECT_FALSE(agree(expected, trial.result(rounding), request))
        << candidate.name << " in tf32, " << request.key();
  }
}

TEST(Trial, SeesProductsInTf32WhateverTheNumberOfTerms) {
  constexpr int64_t m = 8, n = 8, most_terms = int64_t{1} << 18;
  for (int64_t k = 1; k <= most_terms; k *= 64) {
    const auto expect_seen = [&](const OperandDesc& a, const OperandDesc& b) {
      expect_tf32_is_seen(request_of("batch_matmul", {}, {a, b}, matrix(m, n)));
    };
    expect_seen(matrix(m, k), matrix(k, n));
    expect_seen(matrix(m, k), transposed(k, n));
    expect_seen(transposed(m, k), matrix(k, n));
  }
}

/// The host's kernel, with one element of the result changed.
class WrongAt final : public Kernel {
 public:
  WrongAt(std::shared_ptr<const Kernel> right, int64_t element)
      : right_(std::move(right)), element_(element) {}
  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    right_->enqueue(queue, buffers, site);
    queue.finish();
    static_cast<float*>(buffers[2].storage->address())[element_] += 1;
  }

 private:
  std::shared_ptr<const Kernel> right_;
  int64_t element_;
};

TEST(Trial, ComparesTheBeginTheMiddleAndTheEndOfALargeResult) {
  constexpr int64_t m = 5000, n = 3000;
  const KernelRequest request = request_of("batch_matmul", {}, {matrix(m, 2), matrix(2, n)}, matrix(m, n));
  const TrialResults expected = host_result(request);
  auto candidates = backend_of(Device{}).candidates(0, request);
  ASSERT_FALSE(candidates.empty());
  Trial trial(Device{}, request);
  const std::shared_ptr<const Kernel> right = candidates.front().kernel;
  EXPECT_TRUE(agree(expected, trial.result(candidates.front()), request));
  EXPECT_LT(expected[0].size(), m * n);
  for (const int64_t element : {int64_t{0}, m * n / 2, m * n - 1}) {
    candidates.front().kernel = std::make_shared<WrongAt>(right, element);
    EXPECT_FALSE(agree(expected, trial.result(candidates.front()), request)) << element;
  }
}

TEST(Trial, InfinityAndNaNAgreeOnlyWithThemselves) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const OperandDesc two{dtype, {1, 1, 2}, {}, {2, 2, 1}}, one{dtype, {1, 1, 1}, {}, {1, 1, 1}};
    const KernelRequest request = request_of("batch_matmul", {}, {one, two}, two);
    const auto agree_on = [&](double a, double b) {
      return agree({from_doubles(dtype, two.shape, std::vector<double>{-4, a})},
                   {from_doubles(dtype, two.shape, std::vector<double>{-4, b})}, request);
    };
    for (const double value : {0.0, 2.0, -infinity, infinity, nan}) EXPECT_TRUE(agree_on(value, value));
    for (const double value : {0.0, infinity, nan})
      for (const double other : {2.0, -infinity}) {
        EXPECT_FALSE(agree_on(value, other)) << value << " and " << other << " in " << to_string(dtype);
        EXPECT_FALSE(agree_on(other, value)) << value << " and " << other << " in " << to_string(dtype);
      }
  }
}

TEST(Trial, SeesConvolutionsInTf32) {
  const auto dense = [](const Shape& shape) {
    return OperandDesc{DType::f32, shape, {}, contiguous_strides(shape)};
  };
  const OperandDesc images = dense({32, 8, 64, 64}), weights = dense({8, 8, 3, 3});
  Attrs attrs = conv_attrs({.padding = 1});
  expect_tf32_is_seen(request_of("conv2d", attrs, {images, weights}, images));
  attrs.set("weight_shape", Ints{8, 8, 3, 3});
  expect_tf32_is_seen(request_of("conv2d_weight_grad", attrs, {images, images}, weights));
}

// With random numbers all groups would be empty, and nothing would be timed.
TEST(Trial, GroupsOfRowsHaveRows) {
  for (const int64_t stride : {0, 1, 2}) {
    const auto of = [](const Shape& shape) {
      return OperandDesc{DType::f32, shape, {}, contiguous_strides(shape)};
    };
    const KernelRequest request = request_of(
        "grouped_matmul", {}, {of({41, 3}), of({4, 3, 2}), {DType::i64, {4}, {}, {stride}}}, of({41, 2}));
    const auto candidates = backend_of(Device{}).candidates(0, request);
    ASSERT_FALSE(candidates.empty());
    const TrialResults results = Trial(Device{}, request).whole_result(candidates.front());
    EXPECT_EQ(std::ranges::count(results.front().as<float>(), 0.0F), 0) << "a stride of " << stride;
  }
}

}  // namespace
}  // namespace athanor
