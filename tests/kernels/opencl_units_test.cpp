// OpenCL's matrix units without a card that has them: their functions are written from the text of the
// extension, and the tile engine's kernels use these functions on a processor.
#include "athanor/kernels/gpu/opencl_units.h"

#include <fmt/format.h>

#include "athanor/backends/gpu/unit_trials.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

std::vector<MatrixUnit> dpas_units(int lanes) {
  std::vector<MatrixUnit> units = opencl_units({.least_wave = lanes});
  std::erase_if(units, [](const MatrixUnit& unit) { return unit.form != MatrixUnit::Form::dpas; });
  return units;
}

/// The function of cl_intel_subgroup_matrix_multiply_accumulate, version 1.1.0: component r of `a` is row r,
/// of which a lane has as many adjacent steps along k as its size holds; component s of `b` is the s-th 32
/// bits of the lane's column; component r of `acc` is row r of its column. `lost`: the number of steps that a
/// wrong driver leaves out.
std::string model(const MatrixUnit& unit, int lost = 0) {
  const int lane_bytes = 32 / unit.wave, size = static_cast<int>(size_of(unit.input));
  const std::string element = unit.input == DType::i8 ? "(int)(char)({0} >> ({1}) * 8 & 255)"
                              : unit.input == DType::bf16
                                  ? "as_float(({0} >> ({1}) * 16 & 65535) << 16)"
                                  : "f32_of_f16((f16_bits)({0} >> ({1}) * 16 & 65535))";
  const auto at = [&](const std::string& word, const std::string& place) {
    return fmt::format(fmt::runtime(element), word, place);
  };
  std::string put, add;
  for (int r = 0; r < 8; ++r) {
    put += fmt::format("  mine[{0}] = ({1})a.s{0}, mine[8 + {0}] = b.s{0};\n", r,
                       lane_bytes == 4 ? "u32" : "ushort");
    add += fmt::format("  for (int k = 0; k < {}; ++k) acc.s{} += {} * {};\n", unit.k - lost, r,
                       at(fmt::format("all[(wave + k / {}) * 16 + {}]", lane_bytes / size, r),
                          fmt::format("k % {}", lane_bytes / size)),
                       at(fmt::format("mine[8 + k / {}]", 4 / size), fmt::format("k % {}", 4 / size)));
  }
  return fmt::format(
      "#undef UNROLL\n"
      "#define UNROLL\n"  // otherwise PoCL takes even longer to compile
      "DEVICE {0}8 dpas_model(LOCAL u32 *all, {1} a, uint8 b, {0}8 acc) {{\n"
      "  const int item = (int)get_local_id(0), wave = item / {2} * {2};\n"
      "  LOCAL u32 *const mine = all + item * 16;\n"
      "  barrier(CLK_LOCAL_MEM_FENCE);\n{3}"
      "  barrier(CLK_LOCAL_MEM_FENCE);\n{4}"
      "  return acc;\n}}\n"
      "#define {5}(a, b, acc) dpas_model(exchanged, a, as_uint8(b), acc)\n",
      unit.output == DType::i32 ? "int" : "float", unit.operand, unit.wave, put, add, unit.instruction);
}

/// Gives a kernel the memory for the model, and removes the attribute that PoCL does not know.
void add_model(const MatrixUnit& unit, GpuLaunch& launch, int lost = 0) {
  std::string& source = launch.source;
  constexpr std::string_view body = "const int item = LOCAL_ID(0);";
  if (const size_t at = source.find(body); at != std::string::npos)
    source.insert(at, "LOCAL u32 exchanged[GROUP_EXTENT_0 * 16]; ");
  constexpr std::string_view attribute = "__attribute__((intel_reqd";
  if (const size_t at = source.find(attribute); at != std::string::npos)
    source.erase(at, source.find('\n', at) - at);
  // PoCL 3.1 optimises these loops of 16 lanes to wrong values, but not the same ones each time.
  launch.compile_options = "-cl-opt-disable";
  source = model(unit, lost) + source;
}

class OpenClModels : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (gpu_backend() != "opencl") GTEST_SKIP() << "these are OpenCL's";
    device_ = &gpu::gpu_device(gpu_devices().front().device);
  }
  /// Less than the 32 KiB of local memory that every device has, because the model takes some.
  GpuTraits traits() const {
    GpuTraits all = device_->facts().traits;
    all.registers = true;
    all.local_bytes = 20 * 1024;
    return all;
  }
  gpu::GpuDevice* device_ = nullptr;
};
class OpenClUnits : public OpenClModels, public ::testing::WithParamInterface<int> {};

TEST_P(OpenClUnits, MultiplyAsTheExtensionSays) {
  for (const MatrixUnit& unit : dpas_units(GetParam())) {
    const auto found = gpu::units_that_work(*device_, traits(), {&unit, 1},
                                            [&](GpuLaunch& launch) { add_model(unit, launch); });
    EXPECT_EQ(found.size(), 1U) << unit.instruction;
  }
}

TEST_P(OpenClUnits, AWrongDriverIsFoundOut) {
  const MatrixUnit unit = dpas_units(GetParam()).front();
  for (const int lost : {1, 8})
    EXPECT_TRUE(gpu::units_that_work(*device_, traits(), {&unit, 1}, [&](GpuLaunch& launch) {
                  add_model(unit, launch, lost);
                }).empty());
}

// Incomplete tiles, matrices along rows and columns, parts of K, sums of bytes.
TEST_P(OpenClUnits, MultiplyMatricesOfAllKinds) {
  int round = 0;
  for (const MatrixUnit& unit : dpas_units(GetParam()))
    for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{{2, 70, 72, 40}, {1, 40, 261, 33}}) {
      const bool bytes = unit.input == DType::i8;
      const Ints along_rows{m * k, 1, m}, along_columns{k * n, 1, k};
      const std::vector<TestOperand> inputs = {
          view(unit.input, {b, m, k}, 1, round % 2 == 0 ? Ints{} : along_rows),
          view(unit.input, {b, k, n}, 2, round / 2 % 2 == 0 ? Ints{} : along_columns)};
      const DType output = bytes ? DType::i32 : unit.input;
      const KernelRequest request =
          request_of(find_op(bytes ? "wide_batch_matmul" : "batch_matmul"), {}, inputs, output, {b, m, n});
      GpuTraits traits = OpenClUnits::traits();
      traits.compute_units = 1 + 3 * (round++ % 2);
      traits.matrix_units = {&unit, 1};
      std::vector<testing::Run> runs;
      for (GpuCandidate& candidate : gpu_candidates(request, traits)) {
        if (!candidate.parameters.contains("tile_m")) continue;
        GpuLaunch& product = candidate.launches.front();
        EXPECT_EQ(product.compile_options, "-cl-intel-256-GRF-per-thread");
        add_model(unit, product);
        runs.push_back({candidate.name, run_on(*device_, candidate, inputs, request.output())});
        break;
      }
      EXPECT_FALSE(runs.empty()) << unit.instruction;
      expect_all_near(runs, reference_of(request, inputs), bytes ? 0 : tolerance_of(unit.input),
                      request.key());
    }
}

// The extension's function is defined here, whether the driver has it or not.
TEST_F(OpenClModels, SumsOfFourProducts) {
  std::vector<MatrixUnit> units = opencl_units({.dots = true});
  std::erase_if(units, [](const MatrixUnit& unit) { return unit.form != MatrixUnit::Form::dot; });
  ASSERT_EQ(units.size(), 1U);
  const std::string function =
      "#undef UNROLL\n#define UNROLL\n"
      "DEVICE int dot_of_four(char4 a, char4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }\n"
      "#define dot_4x8packed_ss_int(a, b) dot_of_four(as_char4(a), as_char4(b))\n";
  const auto found = gpu::units_that_work(*device_, traits(), units, [&](GpuLaunch& launch) {
    launch.compile_options = "-cl-opt-disable";  // PoCL takes minutes
    launch.source = function + launch.source;
  });
  EXPECT_EQ(found.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Lanes, OpenClUnits, ::testing::Values(8, 16));

}  // namespace
}  // namespace athanor::testing
