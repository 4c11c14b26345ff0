#include <array>
#include <set>

#include "athanor/base/threads.h"
#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

const Op matmul = make_op("batch_matmul", Prim::batch_matmul);

double activated(const std::string& activation, double value) {
  if (activation == "relu") return std::max(value, 0.0);
  if (activation == "tanh") return std::tanh(value);
  if (activation == "sigmoid") return 1 / (1 + std::exp(-value));
  return value;
}

std::vector<double> expected(const std::vector<TestOperand>& inputs, const Epilogue& epilogue) {
  const int64_t batch = inputs[0].desc.shape[0], m = inputs[0].desc.shape[1], k = inputs[0].desc.shape[2];
  const int64_t n = inputs[1].desc.shape[2];
  std::vector<double> result;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i) {
      std::vector<double> sums(static_cast<size_t>(n));
      if (epilogue.bias) sums = inputs[2].values;
      for (int64_t p = 0; p < k; ++p) {
        const double factor = inputs[0].values[static_cast<size_t>((b * m + i) * k + p)];
        const double* row = inputs[1].values.data() + (b * k + p) * n;
        for (double& sum : sums) sum += factor * *row++;
      }
      for (const double sum : sums) result.push_back(activated(epilogue.activation, sum));
    }
  return result;
}

// A stride of 0 repeats the first element, so read the values back.
TestOperand strided(DType dtype, const Shape& shape, unsigned seed, const Ints& strides) {
  TestOperand value = random_value(dtype, shape, seed, {}, strides);
  std::vector<double> repeated;
  HostArray one(dtype, Shape{1});
  for (int64_t i = 0; i < shape.size(); ++i) {
    std::memcpy(one.bytes.data(),
                static_cast<std::byte*>(value.address()) +
                    offset_of(value.desc, i) * static_cast<int64_t>(size_of(dtype)),
                size_of(dtype));
    repeated.push_back(to_doubles(one)[0]);
  }
  value.values = repeated;
  return value;
}

void check(std::vector<TestOperand> inputs, const Epilogue& epilogue = {}) {
  const DType dtype = inputs[0].desc.dtype;
  const Shape out{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
  auto want = expected(inputs, epilogue);
  if (!is_float(dtype)) {
    if (dtype == DType::b8)
      for (double& value : want) value = value != 0;
    want = to_doubles(from_doubles(dtype, out, want));
  }
  expect_all_near(
      run_all(matmul, {}, inputs, dtype, out, {}, epilogue), want, tolerance_of(dtype),
      to_string(dtype).data() + to_string(inputs[0].desc.shape) + to_string(inputs[1].desc.shape));
}

TEST(CpuMatmul, EveryTypeAndOddShapes) {
  const int64_t shapes[][4] = {{1, 1, 1, 1},  {1, 3, 17, 5},    {2, 13, 7, 31}, {1, 65, 33, 129},
                               {3, 1, 40, 1}, {1, 128, 10, 64}, {1, 5, 0, 3},   {2, 0, 3, 4},
                               {0, 2, 3, 4},  {1, 2, 3, 0}};
  for (int type = 0; type < dtype_count; ++type)
    for (const auto& [b, m, k, n] : shapes) {
      const auto dtype = static_cast<DType>(type);
      check({random_value(dtype, {b, m, k}, 1), random_value(dtype, {b, k, n}, 2)});
    }
}

TEST(CpuMatmul, LargerThanABlock) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const int64_t m : {251, 601})  // few rows, whose right side nobody packs as a whole, and more
      check({random_value(dtype, {1, m, 523}, 1), random_value(dtype, {1, 523, 301}, 2)});
}

// More columns and a larger k than are packed at a time.
TEST(CpuMatmul, LargerThanWhatIsPackedAtATime) {
  for (const bool transposed : {false, true}) {
    const int64_t m = 19, k = 2603, n = 531;
    check({random_value(DType::f32, {1, m, k}, 1, {}, transposed ? Ints{0, 1, m} : Ints{0, k, 1}),
           random_value(DType::f32, {1, k, n}, 2, {}, transposed ? Ints{0, 1, k} : Ints{0, n, 1}),
           random_value(DType::f32, {n}, 3)},
          {.bias = true, .activation = "relu"});
  }
  for (const int64_t m : {7, 601})
    for (const char* activation : {"relu", "tanh"})
      check({random_value(DType::bf16, {1, m, 2103}, 1), random_value(DType::bf16, {1, 2103, 67}, 2),
             random_value(DType::bf16, {67}, 3)},
            {.bias = true, .activation = activation});
  // Of few rows, more of k than is packed at a time.
  check({random_value(DType::f32, {1, 280, 15000}, 1), random_value(DType::f32, {1, 15000, 100}, 2)});
}

TEST(CpuMatmul, Strides) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
    const int64_t b = 3, m = 17, k = 19, n = 23;
    const Ints a_strides[] = {{m * k, k, 1},
                              {m * k, 1, m},
                              {k, b * k, 1},
                              {0, k, 1},
                              {0, 1, m},
                              {2 * m * k, 2 * k, 2},
                              {(2 * m - 1) * k, 2 * k, 1},  // every other row, to the last
                              {k, k, 1},                    // windows that overlap
                              {1, m + 2, 1}};
    const Ints b_strides[] = {{k * n, n, 1}, {k * n, 1, k}, {n, b * n, 1}, {0, n, 1},
                              {0, 1, k},     {0, 0, 1},     {k * n, n, 0}};
    for (const auto& left : a_strides)
      for (const auto& right : b_strides)
        check({strided(dtype, {b, m, k}, 1, left), strided(dtype, {b, k, n}, 2, right)});
    check({strided(dtype, {1, m, k}, 1, {7, 1, m}), strided(dtype, {1, k, n}, 2, {0, 1, k})});
    check({strided(dtype, {1, 1, k}, 1, {0, 0, 1}), strided(dtype, {1, k, 1}, 2, {0, 1, 0})});
    check({strided(dtype, {1, m, 1}, 1, {0, 1, 5}), strided(dtype, {1, 1, n}, 2, {0, 9, 1})});
    check({strided(dtype, {1, m, k}, 1, {0, -k, 1}), strided(dtype, {1, k, n}, 2, {0, n, -1})});
  }
}

TEST(CpuMatmul, Epilogues) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const char* activation : {"", "relu", "tanh", "sigmoid"})
      for (const int64_t batch : {1, 2})
        for (const bool bias : {false, true}) {
          std::vector<TestOperand> inputs = {random_value(dtype, {batch, 17, 33}, 1),
                                             random_value(dtype, {batch, 33, 20}, 2)};
          if (bias) inputs.push_back(random_value(dtype, {20}, 3));
          check(inputs, {.bias = bias, .activation = activation});
        }
}

// A different list would be tuned again, and the same seed would not give the same numbers.
TEST(CpuMatmul, HasTheSameCandidatesWheneverAsked) {
  const auto dense = [](const Shape& shape) {
    return OperandDesc{DType::f32, shape, {}, contiguous_strides(shape)};
  };
  KernelRequest request{
      &matmul, {}, {dense({1, 128, 784}), dense({1, 784, 512}), dense({512})}, {dense({1, 128, 512})}, {}};
  request.epilogue = program_of({.bias = true, .activation = "relu"}, request);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const Candidate& candidate : cpu().candidates(0, request)) all.push_back(candidate.name);
    return all;
  };
  const auto first = names();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(names(), first);
  }
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), first.size());
}

TEST(CpuMatmul, AnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    set_cpu_threads(threads);
    EXPECT_TRUE(cpu_threads() == threads || cpu_threads() == 1);  // 1: built without OpenMP
    for (const int64_t m : {100, 601})
      check({random_value(DType::f32, {1, m, 130}, 1), random_value(DType::f32, {1, 130, 90}, 2)});
  }
  set_cpu_threads(0);
  EXPECT_THROW(set_cpu_threads(-1), std::exception);
}

// The number of threads does not change the order in which an element's products are added. It changes which
// side of [200, 700] x [700, 90] is packed for all threads.
TEST(CpuMatmul, ManyThreadsGiveTheSameBits) {
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{
           {1, 10, 700, 300}, {1, 200, 700, 90}, {1, 300, 700, 50}, {1, 601, 300, 70}, {8, 40, 300, 60}}) {
    std::vector<TestOperand> inputs = {random_value(DType::f32, {b, m, k}, 1),
                                       random_value(DType::f32, {b, k, n}, 2)};
    std::vector<double> first;
    for (const int threads : {1, 2, 7}) {
      set_cpu_threads(threads);
      for (const auto& run : run_all(matmul, {}, inputs, DType::f32, Shape{b, m, n})) {
        if (run.candidate != "generic gemm") continue;
        if (first.empty()) first = run.values;
        EXPECT_EQ(run.values, first) << threads << " threads, " << m << " x " << k << " x " << n;
      }
    }
    EXPECT_FALSE(first.empty());
  }
  set_cpu_threads(0);
}

}  // namespace
}  // namespace athanor::testing
