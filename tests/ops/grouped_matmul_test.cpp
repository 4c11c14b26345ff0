// Groups of rows, each multiplied by a matrix of its own, and a mixture of experts made of them.
#include <gtest/gtest.h>

#include <random>

#include "athanor/compile/options.h"
#include "athanor/runtime/evaluate.h"
#include "tests/ops/values.h"
#include "tests/support/expect_error.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

Tensor integers(const std::vector<int64_t>& list, Device device = {}) {
  return Tensor::from(list, {static_cast<int64_t>(list.size())}).to(device);
}

// So that the host does not know the values before they are computed.
Tensor computed(const Tensor& ends) { return ends + zeros({}, DType::i64, ends.device()); }

std::vector<Device> test_devices() {
  std::vector<Device> devices{Device{}};
  for (const DeviceInfo& info : gpu_devices()) devices.push_back(info.device);
  return devices;
}

TEST(GroupedMatmul, MultipliesRowsByTheMatrixOfTheirGroup) {
  const Tensor x = count({5, 1}), w = reshape(f64({1, 10, 100}), {3, 1, 1});
  const Doubles expected = {0, 1, 200, 300, 0};
  EXPECT_EQ(values(grouped_matmul(x, w, integers({2, 2, 4}))), expected);
  EXPECT_EQ(values(grouped_matmul(x, cast(w, DType::f32), cast(integers({2, 2, 4}), DType::i32))), expected);
  EXPECT_EQ(values(grouped_matmul(x, w, computed(integers({2, 2, 4})))), expected);
  // One end that every group shares, read with a stride of 0.
  EXPECT_EQ(values(grouped_matmul(x, w, broadcast_to(computed(integers({3})), {3}))),
            Doubles({0, 1, 2, 0, 0}));
  EXPECT_EQ(values(grouped_matmul(x, zeros({0, 1, 2}), integers({}))), Doubles(10, 0));
}

// A group's result does not depend on other rows and matrices, even if they are not finite.
TEST(GroupedMatmul, InfinityStaysInItsGroup) {
  for (const char* off : {"", "dedicated"}) {
    const ScopedDisable scope(off);
    Tensor x = reshape(f64({1, infinity, 3}), {3, 1}), w = reshape(f64({2, infinity}), {2, 1, 1});
    x.requires_grad(), w.requires_grad();
    const Tensor y = grouped_matmul(x, w, integers({1, 2}));
    EXPECT_EQ(values(y), Doubles({2, infinity, 0})) << off;
    const auto gradients = grad({y}, {x, w}, {reshape(f64({5, 1, infinity}), {3, 1})});
    EXPECT_EQ(values(gradients[0]), Doubles({10, infinity, 0})) << off;
    EXPECT_EQ(values(gradients[1]), Doubles({5, infinity})) << off;
  }
}

TEST(GroupedMatmul, Errors) {
  const Tensor x = ones({5, 2}), w = ones({2, 2, 3});
  expect_error(ErrorCode::value,
               {"grouped_matmul(f32[5, 2], f32[2, 2, 3], i64[2])", "group 1 ends at row 2",
                "before row 3, where it begins", "in [0, 5]", "grouped_matmul_test.cpp"},
               [&] {
                 grouped_matmul(x, w, integers({3, 2}));
               });
  expect_error(ErrorCode::value, {"group 1 ends at row 6", "behind the 5 rows"}, [&] {
    grouped_matmul(x, w, integers({3, 6}));
  });
  expect_error(ErrorCode::value, {"group 0 ends at row -1"}, [&] {
    grouped_matmul(x, w, integers({-1, 2}));
  });
  expect_error(ErrorCode::shape, {"2 matrices for 3 ends"}, [&] {
    grouped_matmul(x, w, integers({1, 2, 3}));
  });
  expect_error(ErrorCode::shape, {"2 columns on the left against 4 rows", "transpose"}, [&] {
    grouped_matmul(x, ones({2, 4, 3}), integers({1, 2}));
  });
  expect_error(ErrorCode::shape, {"x [T, K], w [E, K, N] and ends [E]"}, [&] {
    grouped_matmul(x, ones({2, 3}), integers({1, 2}));
  });
  expect_error(ErrorCode::dtype, {"ends of i64, not f32"}, [&] { grouped_matmul(x, w, ones({2})); });
  expect_error(ErrorCode::dtype, {"grouped_matmul"}, [&] {
    grouped_matmul(cast(x, DType::i32), cast(w, DType::i32), integers({1, 2}));
  });
}

// The host does not know these ends when the graph is built.
TEST(GroupedMatmul, BadEndsThatAreComputed) {
  for (const Device device : test_devices()) {
    SCOPED_TRACE(to_string(device));
    const Tensor x = ones({5, 2}, DType::f32, device), w = ones({3, 2, 3}, DType::f32, device);
    for (const auto& [ends, row] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{
             {{1, 4, 2}, 2}, {{1, 2, 6}, 6}, {{-3, 2, 5}, -3}, {{0, 1, int64_t{1} << 40}, int64_t{1} << 40}})
      for (const bool gradient : {false, true}) {
        const Tensor bad = computed(integers(ends, device));
        const std::string op = gradient ? "grouped_matmul_weight_grad" : "grouped_matmul";
        const Tensor dy = ones({5, 3}, DType::f32, device);
        expect_error(ErrorCode::value,
                     {op, "ends at row " + std::to_string(row), "not fall", "grouped_matmul_test.cpp"}, [&] {
                       values(gradient ? call(op, {x, dy, bad}) : grouped_matmul(x, w, bad));
                     });
        const ScopedDisable scope("dedicated");
        expect_error(ErrorCode::value, {"outside an axis of extent 6"}, [&] {
          values(gradient ? call(op, {x, dy, bad}) : grouped_matmul(x, w, bad));
        });
      }
    // The device goes on computing.
    EXPECT_EQ(values(grouped_matmul(x, w, integers({1, 1, 1}, device))),
              Doubles({2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  }
}

// ---- A mixture of experts ----

struct Experts {
  Tensor x, router, first, second;
};

Tensor random(const Shape& shape, unsigned seed, Device device) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> numbers(static_cast<size_t>(shape.size()));
  for (float& number : numbers) number = uniform(generator);
  return Tensor::from(numbers, shape).to(device);
}

// The row of each token is multiplied by the matrices of its expert, and by the expert's probability.
Tensor together(const Experts& m) {
  const int64_t experts = m.first.size(0);
  const Tensor chances = softmax(matmul(m.x, m.router), 1);
  const Tensor expert = argmax(chances, 1), order = argsort(expert);
  const Tensor ends = cumsum(sum(one_hot(expert, experts, DType::i32), 0), 0);
  const Tensor hidden = gelu(grouped_matmul(take(m.x, order), m.first, ends));
  const Tensor y = take(grouped_matmul(hidden, m.second, ends), argsort(order));
  return y * max(chances, 1, true);
}

Tensor apart(const Experts& m) {
  const Tensor chances = softmax(matmul(m.x, m.router), 1), expert = argmax(chances, 1, true);
  Tensor all;
  for (int64_t e = 0; e < m.first.size(0); ++e) {
    const auto of = [&](const Tensor& matrices) { return squeeze(slice(matrices, 0, e, e + 1), {0}); };
    const Tensor y = matmul(gelu(matmul(m.x, of(m.first))), of(m.second));
    const Tensor own = where(equal(expert, e), y, 0) * max(chances, 1, true);
    all = all.defined() ? all + own : own;
  }
  return all;
}

void expect_near(const Tensor& got, const Tensor& want, const char* what) {
  const Doubles a = values(got), b = values(want);
  ASSERT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 2e-5) << what << ", element " << i;
    largest = std::max(largest, std::abs(b[i]));
  }
  EXPECT_GT(largest, 0.01) << what;
}

TEST(GroupedMatmul, AMixtureOfExpertsEqualsItsExpertsApart) {
  constexpr int64_t tokens = 37, width = 6, hidden = 11, experts = 5;
  for (const Device device : test_devices()) {
    SCOPED_TRACE(to_string(device));
    const ScopedDisable untuned(device == Device{} ? "" : "tune");  // devices compile each candidate
    Experts m{random({tokens, width}, 1, device), random({width, experts}, 2, device),
              random({experts, width, hidden}, 3, device), random({experts, hidden, width}, 4, device)};
    const std::vector<Tensor> leaves{m.x.requires_grad(), m.router.requires_grad(), m.first.requires_grad(),
                                     m.second.requires_grad()};
    const Tensor seed = random({tokens, width}, 5, device);
    const Tensor a = together(m), b = apart(m);
    const auto of_a = grad({a}, leaves, {seed}), of_b = grad({b}, leaves, {seed});
    expect_near(a, b, "the result");
    const char* const names[] = {"x", "the router", "the first matrices", "the second matrices"};
    for (size_t i = 0; i < leaves.size(); ++i) expect_near(of_a[i], of_b[i], names[i]);
  }
}

}  // namespace
}  // namespace athanor::testing
