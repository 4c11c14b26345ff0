// The matrix unit of Volta (sm_70), on NVIDIA's later chips, which have its instruction too. The virtual GPU
// does not: there it is replaced by shuffles, which are written from PTX's description of it.
#include <cstdlib>

#include "athanor/kernels/gpu/gpu_access.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

/// mma.m8n8k4 of f16 with sums of f32 (PTX ISA 8.7, "Matrix Fragments for mma.m8n8k4 with .f16 floating point
/// type"). Lanes 4 q to 4 q + 3 and those 16 further on compute one product: lane l < 4 of each four has row
/// l of A and column l of B, and the lane 16 further on row and column l + 4.
constexpr std::string_view model = R"(
DEVICE float volta_step(u32 x, u32 y, int from, int high) {
  const u32 a = __shfl_sync(0xffffffffu, x, from >> 8), b = __shfl_sync(0xffffffffu, y, from & 255);
  return f32_of_f16((f16_bits)(high ? a >> 16 : a)) * f32_of_f16((f16_bits)(high ? b >> 16 : b));
}
// Inlined, it would take NVRTC minutes.
static __device__ __noinline__ void MULTIPLY_ADD(f32x8 &c, u32 a0, u32 a1, u32 b0, u32 b1) {
  const int lane = threadIdx.x % 32, first = lane % 16 / 4 * 4;
  for (int i = 0; i < 8; ++i) {
    const int row = (lane & 1) + (i & 2) + (lane < 16 ? 0 : 4), column = (i & 4) + (lane & 2) + (i & 1);
    const int from = (first + row % 4 + row / 4 * 16) << 8 | (first + column % 4 + column / 4 * 16);
    float sum = c[i];
    sum += volta_step(a0, b0, from, 0);
    sum += volta_step(a0, b0, from, 1);
    sum += volta_step(a1, b1, from, 0);
    sum += volta_step(a1, b1, from, 1);
    c[i] = sum;
  }
}
)";

class GpuVolta : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (gpu_backend() != "cuda") GTEST_SKIP() << "PTX is CUDA's";
  }

  /// Checks every kernel of the unit for the request, and returns their number.
  static size_t check(const KernelRequest& request, const std::vector<TestOperand>& inputs) {
    gpu::GpuDevice& device = gpu::gpu_device(gpu_devices().front().device);
    GpuTraits traits = traits_of(device);
    traits.matrix_units = matrix_units(GpuTarget::cuda, "sm_70");
    traits.async_copies = traits.box_copies = false;
    std::vector<GpuCandidate> candidates = candidates_for(request, traits);
    std::erase_if(candidates, [](const GpuCandidate& one) {
      return one.name.find("mma 16x16x4") == std::string::npos || one.name.ends_with(" and a loop");
    });
    std::vector<athanor::testing::Run> runs;
    for (GpuCandidate& one : reduced(std::move(candidates))) {
      if (std::getenv("VCUDA") != nullptr)
        for (GpuLaunch& launch : one.launches) replace_unit(launch.source);
      runs.push_back({one.name, run_on(device, one, inputs, request.output())});
    }
    expect_all_near(runs, reference_of(request, inputs), 8 * tolerance_of(DType::f16), request.key());
    return runs.size();
  }

 private:
  static void replace_unit(std::string& source) {
    const std::string text = multiply_add_text(matrix_units(GpuTarget::cuda, "sm_70").front());
    if (const size_t at = source.find(text); at != std::string::npos) source.replace(at, text.size(), model);
  }
};

TestOperand matrix(int64_t rows, int64_t columns, bool turned, unsigned seed) {
  return view(DType::f16, {1, rows, columns}, seed,
              turned ? Ints{rows * columns, 1, rows} : Ints{rows * columns, columns, 1});
}

TEST_F(GpuVolta, Products) {
  for (const Ints& mnk : {Ints{150, 72, 104}, Ints{33, 131, 70}})
    for (const bool a_turned : {false, true})
      for (const bool b_turned : {false, true}) {
        const std::vector<TestOperand> inputs{matrix(mnk[0], mnk[2], a_turned, 1),
                                              matrix(mnk[2], mnk[1], b_turned, 2),
                                              view(DType::f16, {mnk[1]}, 3)};
        EXPECT_GT(check(request_of(find_op("batch_matmul"), {}, inputs, DType::f16, {1, mnk[0], mnk[1]}, {},
                                   {.bias = true, .activation = "relu"}),
                        inputs),
                  0U);
      }
}

TEST_F(GpuVolta, ProductsOfGroups) {
  std::vector<TestOperand> inputs{view(DType::f16, {70, 40}, 1), view(DType::f16, {3, 40, 88}, 2),
                                  make_value(DType::i64, {3}, {7, 7, 59}, {}, Ints{1}),
                                  view(DType::f16, {70, 88}, 3)};
  EXPECT_GT(check(request_of(find_op("grouped_matmul"), {}, inputs, DType::f16, {70, 88}, {},
                             {.activation = "sigmoid", .gate = true}),
                  inputs),
            0U);
}

TEST_F(GpuVolta, ConvolutionsAndTheirGradients) {
  const Attrs attrs = conv_attrs({.stride = 2, .padding = 1});
  const Shape x{2, 24, 11, 13}, w{40, 24, 3, 3}, y = ConvProblem(x, w, attrs).y;
  Attrs of_input = attrs, of_weights = attrs;
  of_input.set("input_shape", x.to_ints());
  of_weights.set("weight_shape", w.to_ints());
  const TestOperand images = view(DType::f16, x, 1), weights = view(DType::f16, w, 2),
                    grad = view(DType::f16, y, 3);
  const auto check_op = [](const char* op, const Attrs& with, const std::vector<TestOperand>& inputs,
                           const Shape& shape) {
    EXPECT_GT(check(request_of(find_op(op), with, inputs, DType::f16, shape), inputs), 0U) << op;
  };
  check_op("conv2d", attrs, {images, weights}, y);
  check_op("conv2d_input_grad", of_input, {grad, weights}, x);
  check_op("conv2d_weight_grad", of_weights, {images, grad}, w);
}

}  // namespace
}  // namespace athanor::testing
