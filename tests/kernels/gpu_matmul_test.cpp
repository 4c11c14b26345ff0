#include <tuple>

#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

void check(std::vector<TestOperand> inputs, const Epilogue& epilogue = {}) {
  const Shape out{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
  const double tolerance = tolerance_of(inputs[0].desc.dtype);
  check_candidates("batch_matmul", {}, std::move(inputs), out, tolerance, epilogue);
}

void check(DType dtype, int64_t b, int64_t m, int64_t k, int64_t n) {
  check({view(dtype, {b, m, k}, 1), view(dtype, {b, k, n}, 2)});
}

TEST(GpuMatmul, OddShapes) {
  ATHANOR_NEEDS_GPU();
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{{1, 1, 1, 1},
                                                                      {1, 3, 17, 5},
                                                                      {2, 13, 7, 31},
                                                                      {1, 65, 33, 129},
                                                                      {3, 1, 40, 1},
                                                                      {1, 17, 129, 1000},
                                                                      {1, 1, 1000, 129},
                                                                      {1, 129, 1000, 1},
                                                                      {1, 131, 67, 137}})
    check(DType::f32, b, m, k, n);
}

TEST(GpuMatmul, SplitsALongK) {
  ATHANOR_NEEDS_GPU();
  check(DType::f32, 1, 16, 2000, 16);
  check({view(DType::f32, {1, 30, 3001}, 1), view(DType::f32, {1, 3001, 20}, 2), view(DType::f32, {20}, 3)},
        {.bias = true, .activation = "relu"});
}

TEST(GpuMatmul, NothingToDo) {
  ATHANOR_NEEDS_GPU();
  for (const auto dtype : {DType::f32, DType::bf16, DType::i32}) {
    check(dtype, 1, 5, 0, 3);
    check(dtype, 2, 0, 3, 4);
    check(dtype, 0, 2, 3, 4);
    check(dtype, 1, 2, 3, 0);
  }
}

TEST(GpuMatmul, EveryType) {
  ATHANOR_NEEDS_GPU();
  for (const auto dtype :
       {DType::bf16, DType::f16, DType::f64, DType::i64, DType::i32, DType::i8, DType::u8}) {
    check(dtype, 2, 13, 7, 31);
    check(dtype, 1, 3, 17, 5);
    check(dtype, 1, 40, 100, 35);
  }
}

TEST(GpuMatmul, SumsOfBytes) {
  ATHANOR_NEEDS_GPU();
  for (const auto dtype : {DType::i8, DType::u8})
    check_candidates("batch_matmul", {}, {view(dtype, {1, 3, 17}, 1), view(dtype, {1, 17, 5}, 2)}, {1, 3, 5},
                     tolerance_of(dtype), {}, "plain");
}

TEST(GpuMatmul, Strides) {
  ATHANOR_NEEDS_GPU();
  const int64_t b = 3, m = 17, k = 19, n = 23;
  const Ints a_strides[] = {{m * k, 1, m}, {k, b * k, 1}, {0, k, 1}, {2 * m * k, 2 * k, 2}, {0, -k, 1}};
  const Ints b_strides[] = {{k * n, n, 1}, {k * n, 1, k}, {n, b * n, 1}, {0, 0, 1}, {k * n, n, 0}};
  for (size_t i = 0; i < std::size(a_strides); ++i)
    for (size_t j = 0; j < 2; ++j)  // only some pairs, because each has kernels to compile
      check({view(DType::f32, {b, m, k}, 1, a_strides[i]),
             view(DType::f32, {b, k, n}, 2, b_strides[(i + 2 * j) % 5])});
  check({view(DType::bf16, {b, m, k}, 1, {0, 1, m}), view(DType::bf16, {b, k, n}, 2, {0, -n, -1})});
  check({view(DType::f32, {5, 1, k}, 1, {k, 7, 1}), view(DType::f32, {5, k, n}, 2, {0, n, 1})});
  check({view(DType::f32, {1, 300, 200}, 1, {0, 1, 300}), view(DType::f32, {1, 200, 2}, 2)});
  check({view(DType::f32, {1, 2, 200}, 1, {0, 1, 2}), view(DType::f32, {1, 200, 300}, 2, {0, 1, 200})});
}

TEST(GpuMatmul, Epilogues) {
  ATHANOR_NEEDS_GPU();
  for (const std::string activation : {"", "relu", "tanh", "sigmoid"}) {
    check({view(DType::f32, {2, 13, 70}, 1), view(DType::f32, {2, 70, 37}, 2), view(DType::f32, {37}, 3)},
          {.bias = true, .activation = activation});
    check({view(DType::f32, {1, 70, 65}, 1), view(DType::f32, {1, 65, 3}, 2), view(DType::f32, {3}, 3, {2})},
          {.bias = true, .activation = activation});
  }
  for (const Shape& shape : {Shape{2, 13, 37}, Shape{1, 70, 3}, Shape{3, 1, 65}})
    check({view(DType::f32, {shape[0], shape[1], 70}, 1), view(DType::f32, {shape[0], 70, shape[2]}, 2),
           view(DType::f32, {shape[2]}, 3), view(DType::f32, {1}, 4), view(DType::f32, shape, 5)},
          {.chain = true});
  check({view(DType::f64, {1, 7, 6}, 1), view(DType::f64, {1, 6, 9}, 2), view(DType::f64, {9}, 3)},
        {.bias = true, .activation = "sigmoid"});
  check({view(DType::f16, {1, 7, 60}, 1), view(DType::f16, {1, 60, 90}, 2)}, {.activation = "tanh"});
}

KernelRequest request_for(const std::vector<TestOperand>& inputs) {
  KernelRequest request{&find_op("batch_matmul"), {}, {}, {}, {}};
  for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
  const Shape shape{1, request.inputs[0].shape[1], request.inputs[1].shape[2]};
  request.outputs = {{request.inputs[0].dtype, shape, {}, contiguous_strides(shape)}};
  request.epilogue = program_of({.bias = true, .activation = "relu"}, request);
  return request;
}

// Vectors of 16 bytes if they fit, and elements if rows, or the first element, are not aligned to them.
TEST(GpuMatmul, DotsOfHalfFloats) {
  ATHANOR_NEEDS_GPU();
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const auto& [k, first, fits] :
         std::vector<std::tuple<int64_t, int64_t, bool>>{{768, 0, true}, {203, 0, false}, {768, 4, false}}) {
      std::vector<TestOperand> inputs = {view(dtype, {2, 3, k}, 1), view(dtype, {2, k, 2}, 2, {2 * k, 1, k})};
      for (TestOperand& input : inputs) {
        const auto bytes = static_cast<size_t>(first) * size_of(dtype);
        input.memory.insert(input.memory.begin(), bytes, std::byte{0xff});
        input.offset += bytes;
        if (first > 0) input.desc.alignment = static_cast<int64_t>(bytes);
      }
      const KernelRequest request = request_of(find_op("batch_matmul"), {}, inputs, dtype, {2, 3, 2}, {}, {});
      const std::vector<double> want = reference_of(request, inputs);
      for (const DeviceInfo& info : gpu_devices()) {
        gpu::GpuDevice& device = gpu::gpu_device(info.device);
        const GpuTraits& traits = device.facts().traits;
        std::vector<athanor::testing::Run> runs;
        for (const GpuCandidate& candidate : candidates_for(request, traits)) {
          if (!candidate.name.starts_with("dot")) continue;
          const bool by_registers = candidate.parameters.at("width") == 8;
          EXPECT_EQ(by_registers, fits && traits.registers) << candidate.name << ": " << request.key();
          runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
        }
        EXPECT_FALSE(runs.empty()) << request.key();
        expect_all_near(runs, want, tolerance_of(dtype), request.key());
      }
    }
}

// Few rows of A, or columns of B, with a matrix that is read 16 bytes at a time. If rows are not whole
// vectors, other kernels are used.
TEST(GpuMatmul, FewRows) {
  ATHANOR_NEEDS_GPU();
  struct Case {
    int64_t b, m, k, n;
    bool turned = false, fits = true;
  };
  for (const DType dtype : {DType::bf16, DType::f32, DType::f16})
    for (const Case& c : std::vector<Case>{{1, 1, 1000, 520},
                                           {2, 4, 203, 64},
                                           {1, 7, 203, 72},
                                           {1, 5, 130, 64, true},
                                           {1, 3, 65, 8, true},
                                           {1, 1, 3000, 40, true},
                                           {1, 2, 128, 66, false, false}}) {
      // Turned: the columns of A are contiguous, and B has few columns.
      const Shape a{c.b, c.turned ? c.n : c.m, c.k}, b{c.b, c.k, c.turned ? c.m : c.n}, out{c.b, a[1], b[2]};
      std::vector<TestOperand> inputs = {
          view(dtype, a, 1, c.turned ? Ints{c.k * a[1], 1, a[1]} : Ints{a[1] * c.k, c.k, 1}),
          view(dtype, b, 2, c.turned ? Ints{c.k * b[2], 1, c.k} : Ints{c.k * b[2], b[2], 1}),
          view(dtype, {b[2]}, 3)};
      const Epilogue epilogue{.bias = true, .activation = "relu"};
      const KernelRequest request = request_of(find_op("batch_matmul"), {}, inputs, dtype, out, {}, epilogue);
      const std::vector<double> want = reference_of(request, inputs);
      for (const DeviceInfo& info : gpu_devices()) {
        gpu::GpuDevice& device = gpu::gpu_device(info.device);
        const GpuTraits& traits = device.facts().traits;
        const auto candidates = candidates_for(request, traits);
        const auto found = std::ranges::find_if(
            candidates, [](const GpuCandidate& one) { return one.name.starts_with("rows"); });
        EXPECT_EQ(found != candidates.end(), c.fits && traits.registers) << request.key();
        if (found == candidates.end()) continue;
        expect_all_near({{found->name, run_on(device, *found, inputs, request.output())}}, want,
                        tolerance_of(dtype), request.key());
      }
    }
}

TEST(GpuMatmul, AnElementHasTheSameBitsWhereverInATileItLies) {
  ATHANOR_NEEDS_GPU();
  constexpr int64_t k = 40;
  for (const DType dtype : types_with_tiles())
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{21, 51}, {51, 21}}) {
      const std::vector<TestOperand> inputs = {view(dtype, {1, m, k}, 1), view(dtype, {1, k, n}, 2),
                                               view(dtype, {n}, 3)};
      const int64_t row = 1, column = dtype == DType::f16 ? 2 : 1;
      const int64_t compared = compare_with_part(
          request_for, inputs,
          {part_of(inputs[0], {0, row, 0}), part_of(inputs[1], {0, 0, column}), part_of(inputs[2], {column})},
          {0, row, column}, may_overlap);
      EXPECT_GE(compared, (m - row) * (n - column)) << to_string(dtype) << " " << m << " x " << n;
    }
}

}  // namespace
}  // namespace athanor::testing
