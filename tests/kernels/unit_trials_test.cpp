// A unit is used only if a trial showed that it multiplies correctly.
#include "athanor/backends/gpu/unit_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "athanor/kernels/cache.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

class UnitTrials : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (gpu_backend() != "opencl") GTEST_SKIP() << "other drivers say what their devices have";
    device_ = &gpu::gpu_device(gpu_devices().front().device);
  }
  /// `before`: text put before the kernel.
  std::vector<MatrixUnit> working(const std::string& before = {}) {
    return gpu::units_that_work(*device_, device_->facts().traits, lane_units(GpuTarget::opencl, ""),
                                [&](GpuLaunch& launch) { launch.source = before + launch.source; });
  }
  gpu::GpuDevice* device_ = nullptr;
};

TEST_F(UnitTrials, LanesMultiply) {
  ASSERT_EQ(working().size(), 1U);
  EXPECT_EQ(working().front().name, "fma 16x32");
  const int64_t before = compilations();
  working();
  EXPECT_EQ(compilations(), before) << "verdicts are remembered";
}

TEST_F(UnitTrials, ACompilerThatGetsItWrongIsFoundOut) {
  // Only the products of one lane are missing.
  EXPECT_TRUE(
      working("#undef FMA\n#define FMA(a, b, c) (LOCAL_ID(0) == 77 ? (c) : fma((a), (b), (c)))\n").empty());
}

// Units whose kernels exchange registers. Here products are plain, and exchanges go through memory.
class ExchangingUnits : public UnitTrials {
 protected:
  bool works(DType input, const std::string& before = {}) {
    const auto known = matrix_units(GpuTarget::cuda, "sm_80");
    MatrixUnit unit = *std::ranges::find(known, input, &MatrixUnit::input);
    unit.opencl = true;
    const auto change = [&](GpuLaunch& launch) {
      EXPECT_EQ(launch.compile_options, "-DNVIDIA_UNITS");
      launch.compile_options.clear();
      if (launch.name == "exchange_lanes") {
        launch.source = new_ + before + launch.source;
        return;
      }
      Defines type;
      type.set("T", std::string(to_string(input)));
      launch.source =
          type.before(new_ + "KERNEL void " + launch.name +
                      "(BUFFER(const STORED(T), a), BUFFER(const STORED(T), b), BUFFER(STORED(T), c)) {\n"
                      "  BIND(const STORED(T), a); BIND(const STORED(T), b); BIND(STORED(T), c);\n"
                      "  for (int at = 0; at < 64 * 96; ++at) {\n"
                      "    f32 sum = 0;\n"
                      "    for (int k = 0; k < 128; ++k)\n"
                      "      sum += LOAD(T, a, at / 96 * 128 + k) * LOAD(T, b, k * 96 + at % 96);\n"
                      "    STORE(T, c, at, sum);\n"
                      "  }\n"
                      "}\n");
      launch.groups = launch.group_size = {1, 1, 1};
      launch.arguments = {{0}, {1}, {2}};
    };
    return gpu::units_that_work(*device_, device_->facts().traits, {&unit, 1}, change).size() == 1;
  }

 private:
  // Makes the kernels of each test new to the cache.
  std::string new_ = fmt::format("// {}\n", std::chrono::system_clock::now().time_since_epoch().count());
};

TEST_F(ExchangingUnits, LanesThatExchangeOtherNumbersAreFoundOut) {
  EXPECT_TRUE(works(DType::f16));
  EXPECT_FALSE(works(DType::f16, "#undef SHUFFLE_XOR\n#define SHUFFLE_XOR(x, mask) (x)\n"));
  const std::string beyond = "((mask) == 16 ? (x) : shuffle_by_memory(shuffle_memory, (x), (mask)))";
  EXPECT_FALSE(works(DType::f16, "#undef SHUFFLE_XOR\n#define SHUFFLE_XOR(x, mask) " + beyond + "\n"));
}

TEST_F(ExchangingUnits, ExchangesAreTriedOnceForAllTypes) {
  const auto compiled = [&](DType input, const std::string& before, bool right) {
    const int64_t so_far = compilations();
    EXPECT_EQ(works(input, before), right);
    return compilations() - so_far;
  };
  const std::string wrong = "#undef SHUFFLE_XOR\n#define SHUFFLE_XOR(x, mask) ((x) + 1)\n";
  EXPECT_EQ(compiled(DType::f16, wrong, false), 2);
  EXPECT_EQ(compiled(DType::bf16, wrong, false), 1) << "its own product";
  EXPECT_EQ(compiled(DType::f16, "", true), 1) << "the exchange, which now is another kernel";
  EXPECT_EQ(compiled(DType::bf16, "", true), 0);
}

TEST_F(UnitTrials, ACompilerThatRefusesIsNoError) { EXPECT_TRUE(working("#error of a driver\n").empty()); }

TEST_F(UnitTrials, ALaunchHasOptionsOfItsOwn) {
  const auto with = [&](const char* options) {
    return gpu::units_that_work(*device_, device_->facts().traits, lane_units(GpuTarget::opencl, ""),
                                [&](GpuLaunch& launch) {
                                  launch.source =
                                      "#ifndef GIVEN\n#error of a lacking option\n#endif\n" + launch.source;
                                  launch.compile_options = options;
                                })
        .size();
  };
  EXPECT_EQ(with("-DGIVEN"), 1U);
  EXPECT_EQ(with(""), 0U) << "the same source with other options is another program";
}

// A processor uses other kernels, so its units are not even tried.
TEST_F(UnitTrials, OnlyGpusAreTried) {
  for (const DeviceInfo& info : gpu_devices()) {
    const gpu::Facts& facts = gpu::gpu_device(info.device).facts();
    EXPECT_EQ(facts.units_to_try.empty(), info.kind != "gpu") << info.name;
    EXPECT_FALSE(facts.traits.registers);
  }
}

// If it is not known how fast a driver's compiler makes tiles by lanes, they are not the first guess.
TEST(LaneTiles, FollowTheFirstGuessUnlessTheyLead) {
  const Shape x{2, 64, 128}, y{2, 128, 96}, z{2, 64, 96};
  const auto desc = [](const Shape& shape) {
    return OperandDesc{DType::f32, shape, {}, contiguous_strides(shape)};
  };
  const KernelRequest request{&find_op("batch_matmul"), {}, {desc(x), desc(y)}, {desc(z)}, {}};
  GpuTraits traits = with_lane_tiles({});
  const auto first_tile = [&] {
    const auto all = candidates_for(request, traits);
    const auto is_tile = [](const GpuCandidate& one) { return one.parameters.contains("tile_m"); };
    return std::ranges::find_if(all, is_tile) - all.begin();
  };
  EXPECT_EQ(first_tile(), 0);
  traits.lanes_lead = false;
  EXPECT_EQ(first_tile(), 1);
}

}  // namespace
}  // namespace athanor::testing
