// CDNA3's matrix units for floats of 8 bits, which are fnuz there: kernels change the bits on their way. No
// virtual GPU executes them. On virtual GPUs, and on CDNA's other chips, exchanges between lanes take their
// place. They decode the type as StableHLO's RFC 20230321 (fp8_fnuz) describes it.
#include <fmt/format.h>

#include <cstdlib>

#include "athanor/kernels/gpu/gpu_access.h"
#include "f8_codes.h"

namespace athanor::testing {
namespace {

/// What an fnuz code means (ROCm's "FP8 numbers"): 4 bits of exponent with a bias of 8, 3 of mantissa; 0x80
/// is the only NaN.
constexpr std::string_view decoding = R"(
DEVICE f32 fnuz_value(u32 code) {
  const u32 exponent = code >> 3 & 15, mantissa = code & 7;
  const f32 step = F32_OF_BITS(((exponent == 0 ? 1 : exponent) - 8 - 3 + 127) << 23);
  const f32 magnitude = (f32)(exponent == 0 ? mantissa : mantissa + 8) * step;
  return code == 0x80 ? F32_OF_BITS(0x7fc00000u) : code >= 0x80 ? -magnitude : magnitude;
}
DEVICE u32 from_lane(int lane, u32 x) { return (u32)__builtin_amdgcn_ds_bpermute(4 * lane, (int)x); }
)";

/// The unit, with C laid out as by CDNA's other units of this size: lane l has eight bytes of row l % M of A
/// and of column l % M of B, steps 8 (l / M) to 8 (l / M) + 7. (In which order does not matter: A and B have
/// the same.) Of C, its element e is in column l % M and row 8 (e / 4) + 4 (l / M) + e % 4 of 32 rows, or
/// 4 (l / M) + e of 16.
std::string model_of(const MatrixUnit& unit) {
  std::string text(decoding);
  text += fmt::format(
      "DEVICE void MULTIPLY_ADD(f32x{0} &c, u32x2 a, u32x2 b) {{\n"
      "  const int lane = LOCAL_ID(0) % 64, column = lane % {1}, high = lane / {1};\n",
      unit.c.elements, unit.m);
  for (int e = 0; e < unit.c.elements; ++e) text += fmt::format("  f32 sum{0} = c[{0}];\n", e);
  text += fmt::format("  _Pragma(\"unroll 1\") for (int group = 0; group < {}; ++group)\n", 64 / unit.m);
  text += "    _Pragma(\"unroll 1\") for (int part = 0; part < 2; ++part) {\n";
  text +=
      fmt::format("      const u32 y = from_lane(column + {} * group, part == 0 ? b[0] : b[1]);\n", unit.m);
  text += "      const u32 own = part == 0 ? a[0] : a[1];\n";
  for (int e = 0; e < unit.c.elements; ++e) {
    text += fmt::format("      {{ const u32 x = from_lane({} + {} * high + {} * group, own);\n",
                        e / 4 * 8 + e % 4, 4, unit.m);
    text += "        _Pragma(\"unroll 1\") for (int byte = 0; byte < 32; byte += 8)\n";
    text +=
        fmt::format("          sum{} += fnuz_value(x >> byte & 255) * fnuz_value(y >> byte & 255); }}\n", e);
  }
  text += "    }\n";
  for (int e = 0; e < unit.c.elements; ++e) text += fmt::format("  c[{0}] = sum{0};\n", e);
  return text + "}\n";
}

bool is_nan(uint8_t code) { return (code & 0x7f) == 0x7f; }

TestOperand numbers(const Shape& shape, unsigned seed, const Ints& strides = {}) {
  return numbers_by_codes(DType::f8e4m3, shape, seed, strides);
}

class GpuFnuz : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (gpu_backend() != "hip") GTEST_SKIP() << "the units are AMD's";
    for (const MatrixUnit& unit : matrix_units(GpuTarget::hip, "gfx942"))
      if (unit.fnuz) units_.push_back(unit);
    ASSERT_EQ(units_.size(), 2U);
  }

  /// Checks the kernels of each unit for a product of matrices.
  void check(const std::vector<TestOperand>& inputs, double tolerance = 0, const Epilogue& epilogue = {},
             int groups = 1) {
    const Shape shape{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
    const KernelRequest request =
        request_of(find_op("wide_batch_matmul"), {}, inputs, DType::f32, shape, {}, epilogue);
    gpu::GpuDevice& device = gpu::gpu_device(gpu_devices().front().device);
    GpuTraits traits = traits_of(device);
    if (traits.matrix_units.empty() || traits.matrix_units.front().form != MatrixUnit::Form::mfma)
      GTEST_SKIP() << "no waves of 64 lanes that multiply";
    const bool own = std::ranges::any_of(traits.matrix_units, &MatrixUnit::fnuz);
    traits.compute_units = groups;
    std::vector<athanor::testing::Run> runs;
    for (const MatrixUnit& unit : units_) {
      traits.matrix_units = {&unit, 1};
      std::vector<GpuCandidate> candidates = candidates_for(request, traits);
      std::erase_if(candidates, [](const GpuCandidate& one) { return !one.parameters.contains("tile_m"); });
      EXPECT_FALSE(candidates.empty()) << request.key();
      for (GpuCandidate& one : reduced(std::move(candidates))) {
        if (!own || std::getenv("VGPU") != nullptr)
          for (GpuLaunch& launch : one.launches) replace(unit, launch.source);
        runs.push_back({one.name, run_on(device, one, inputs, request.output())});
      }
    }
    expect_all_near(runs, reference_of(request, inputs), tolerance, request.key());
  }

  std::vector<MatrixUnit> units_;

 private:
  static void replace(const MatrixUnit& unit, std::string& source) {
    const std::string text = multiply_add_text(unit);
    if (const size_t at = source.find(text); at != std::string::npos)
      source.replace(at, text.size(), model_of(unit));
  }
};

// The change is that of whole registers: bytes must not disturb their neighbours.
TEST_F(GpuFnuz, BitsOfEachPairOfCodes) {
  const Shape shape{256 * 256};
  const GpuCandidate change{.name = "fnuz",
                            .launches = {{.name = "change",
                                          .source = "KERNEL void change(BUFFER(i32, out)) {\n"
                                                    "  BIND(i32, out);\n"
                                                    "  const u32 pair = GROUP_ID(0) * 256 + LOCAL_ID(0);\n"
                                                    "  u32 x = pair | ~pair << 16;\n"
                                                    "  F8E4M3_TO_FNUZ(x);\n"
                                                    "  out[pair] = (i32)x;\n"
                                                    "}\n",
                                          .groups = {256, 1, 1},
                                          .group_size = {256, 1, 1},
                                          .arguments = {{0}}}}};
  std::vector<double> want;
  for (uint32_t pair = 0; pair < 256 * 256; ++pair) {
    uint32_t all = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const auto code = static_cast<uint8_t>((pair | ~pair << 16) >> 8 * byte);
      const uint32_t becomes = is_nan(code) ? 0x80 : code == 0x80 ? 0 : code;
      all |= becomes << 8 * byte;
    }
    want.push_back(static_cast<int32_t>(all));
  }
  gpu::GpuDevice& device = gpu::gpu_device(gpu_devices().front().device);
  EXPECT_EQ(run_on(device, change, {}, {DType::i32, shape, {}, contiguous_strides(shape)}), want);
}

TEST_F(GpuFnuz, EveryProductOfTwoCodes) {
  const EveryCode every;
  const int64_t codes = EveryCode::codes, k = EveryCode::k;
  const Shape shape_a{1, codes, k}, shape_b{1, k, codes};
  const auto matrix = [](const Shape& shape, const std::vector<uint8_t>& of, const Ints& strides = {}) {
    return matrix_of_codes(DType::f8e4m3, shape, of, strides);
  };
  check({matrix(shape_a, every.a), matrix(shape_b, every.b)});
  check({matrix(shape_a, every.a, {codes * k, 1, codes}), matrix(shape_b, every.b, {codes * k, 1, k})});
}

TEST_F(GpuFnuz, OddShapesAndBatches) {
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{
           {1, 128, 128, 64}, {2, 13, 9, 31}, {1, 131, 67, 137}, {3, 40, 100, 36}})
    check({numbers({b, m, k}, 1), numbers({b, k, n}, 2)}, tolerance_of(DType::f32));
}

TEST_F(GpuFnuz, Strides) {
  const int64_t b = 2, m = 48, k = 80, n = 64;
  const Ints a_strides[] = {{m * k, 1, m}, {0, k, 1}, {2 * m * k, 2 * k, 2}, {m * 90, 90, 1}};
  const Ints b_strides[] = {{k * n, n, 1}, {k * n, 1, k}, {k * n * 3, n * 3, 3}, {k * 90, 90, 1}};
  for (size_t i = 0; i < std::size(a_strides); ++i)
    check({numbers({b, m, k}, 1, a_strides[i]), numbers({b, k, n}, 2, b_strides[i])},
          tolerance_of(DType::f32));
}

// Each part of K is scaled for itself.
TEST_F(GpuFnuz, SplitsAlongK) {
  check({numbers({1, 24, 1030}, 1), numbers({1, 1030, 20}, 2)}, tolerance_of(DType::f32), {}, 4);
  check({numbers({2, 24, 1024}, 1), numbers({2, 1024, 32}, 2, {32768, 1, 1024})}, tolerance_of(DType::f32),
        {}, 8);
}

TEST_F(GpuFnuz, EpiloguesTakeScaledSums) {
  for (const int groups : {1, 8})
    check({numbers({2, 72, 656}, 1), numbers({2, 656, 136}, 2, {656 * 136, 1, 656}),
           view(DType::f32, {136}, 3), view(DType::f32, {1}, 4), view(DType::f32, {2, 72, 136}, 5)},
          tolerance_of(DType::f32), {.chain = true}, groups);
}

}  // namespace
}  // namespace athanor::testing
