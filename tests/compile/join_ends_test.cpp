// Launches that only join the parts of a reduction: many run as one launch, later, and results stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "athanor/backends/gpu/backend.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/nn/models.h"
#include "athanor/nn/module.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/training_step.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/tile_traits.h"

namespace athanor {
namespace {

Device planned() { return parse_device("offline"); }

class JoinedEnds : public ::testing::Test {
 protected:
  void TearDown() override { compile_options() = before_; }
  CompileOptions before_ = compile_options();
};

/// The launches of a plan; and of them, those that only join parts.
struct Launches {
  size_t all = 0, ends = 0;
};
Launches launches_of(const Plan& plan) {
  Launches count;
  for (const PlanStep& step : plan.steps)
    if (const GpuCandidate* kernel = step.kernel.kernel ? step.kernel.kernel->generated() : nullptr) {
      count.all += kernel->launches.size();
      count.ends += kernel->launches.size() > 1 && kernel->launches.back().joining;
    }
  return count;
}

std::vector<Tensor> tensors(int count, Device device, int64_t size) {
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) all.push_back(Tensor::from(HostArray(DType::f32, {size}), device));
  return all;
}

constexpr int64_t long_enough = 1 << 20;  // for a reduction in parts

TEST_F(JoinedEnds, OfManyReductionsAreOneLaunch) {
  std::vector<Tensor> largest;
  for (const Tensor& x : tensors(32, planned(), long_enough)) largest.push_back(max(abs(x)));
  const auto plan = plan_for(largest);
  EXPECT_EQ(launches_of(*plan).all, 33U) << explain(*plan);
  EXPECT_EQ(launches_of(*plan).ends, 0U);
  const ScopedDisable off("join");
  const auto apart = plan_for(largest);
  EXPECT_EQ(launches_of(*apart).all, 64U);
  EXPECT_EQ(launches_of(*apart).ends, 32U);
  // Each keeps at most 1024 parts of 4 bytes until the last one has run.
  EXPECT_LE(plan->planned_memory_bytes(), apart->planned_memory_bytes() + 32 * 1024 * 4);
  EXPECT_EQ(plan->flops(), apart->flops());
  EXPECT_EQ(plan->bytes(), apart->bytes());
}

/// A kernel takes 64 buffers: the parts of both reductions and both results are four.
TEST_F(JoinedEnds, OfSeveralReductionsShareBuffers) {
  std::vector<Tensor> results;
  for (const Tensor& x : tensors(20, planned(), long_enough)) {
    results.push_back(max(abs(x)));
    results.push_back(sum(x * x));
  }
  const auto plan = plan_for(results);
  EXPECT_EQ(launches_of(*plan).all, 20U + 2U) << explain(*plan);
  for (const PlanStep& step : plan->steps) EXPECT_LE(step.buffers.size(), 64U);
}

TEST_F(JoinedEnds, StayWhereTheirResultIsReadAtOnce) {
  Tensor factor = Tensor::from(HostArray(DType::f32, {}), planned());
  for (const Tensor& x : tensors(4, planned(), long_enough)) factor = sum(x * factor);
  EXPECT_EQ(launches_of(*plan_for({factor})).ends, 4U);
}

TEST_F(JoinedEnds, NotWhileLookingForNaN) {
  compile_options().check_nan = true;
  std::vector<Tensor> sums;
  for (const Tensor& x : tensors(4, planned(), long_enough)) sums.push_back(sum(x));
  EXPECT_EQ(launches_of(*plan_for(sums)).ends, 4U);
}

/// How many launches of sm_86 only join parts, where three products find their largest element: of kernels
/// that were taken for their little scratch memory, and when these launches share one.
std::pair<size_t, size_t> ends_of_products() {
  set_offline_architecture(GpuTarget::cuda, "sm_86");
  std::vector<Tensor> results;
  for (int64_t i = 0; i < 3; ++i) {
    const auto matrix = [](int64_t r, int64_t c) {
      return Tensor::from(HostArray(DType::f16, {r, c}), planned());
    };
    const Tensor product = matmul(matrix(256 + 64 * i, 512), matrix(512, 1024));
    results.push_back(product);
    results.push_back(max(abs(cast(product, DType::f32))));
  }
  Plan plan = [&] {
    const ScopedDisable off("join");
    return *plan_for(results);
  }();
  const size_t before = launches_of(plan).ends;
  for (PlanStep& step : plan.steps) step.spares_scratch = step.request.has_value();
  join_ends(plan);
  choose_kernels(plan, compile_options());
  return {before, launches_of(plan).ends};
}

/// Such a kernel must not be taken again instead of its first part. (The architecture stays in its process.)
TEST_F(JoinedEnds, OfKernelsWithLittleScratchMemoryStayApart) {
  EXPECT_EXIT(std::exit(ends_of_products() == std::pair<size_t, size_t>{3, 0} ? 0 : 1),
              ::testing::ExitedWithCode(0), "");
}

/// Loss scaling looks for infinity in each gradient. Most of these are results of convolutions' kernels.
TEST_F(JoinedEnds, OfTheSearchForInfinityInGradients) {
  const auto launches = [] {
    const auto model = nn::make_model("resnet18", {3, 32, 32}, 10);
    model->to(planned());
    optim::Sgd optimizer(model->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::GradScaler scaler(planned());
    eval({});
    const Tensor images = Tensor::from(HostArray(DType::f32, {8, 3, 32, 32}), planned());
    const Tensor labels = Tensor::from(HostArray(DType::i64, {8}), planned());
    StepOptions options;
    options.precision = Precision::f16;
    options.scaler = &scaler;
    const PendingStep step = training_step(*model, optimizer, images, labels, options);
    return launches_of(*plan_for({step.loss}));
  };
  const Launches together = launches();
  const ScopedDisable off("join");
  const Launches apart = launches();
  EXPECT_GE(apart.ends, together.ends + 15);
  EXPECT_LE(together.ends, 6U);  // those that the next kernel reads
}

/// Numbers around 0. `odd` is one of them.
Tensor numbers(int64_t size, float odd, Device device) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7919) % 1009) / 4 - 100;
  values[values.size() / 3] = odd;
  return Tensor::from(values, {size}, device);
}

/// Sums, largest elements and what is computed from them, of tensors of many sizes.
std::vector<Tensor> reductions(Device device) {
  std::vector<Tensor> all;
  for (const int64_t size : {100003, 200000, 65537, 1, 77, 131072, 300001}) {
    const Tensor x = numbers(size, 3, device);
    all.push_back(max(abs(x)));
    all.push_back(sqrt(sum(x * x)));
    all.push_back(min(x) * 2.0);
    const float odd =
        size % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
    all.push_back(max(abs(numbers(size, odd, device))));
  }
  return all;
}

std::vector<float> values_of(const std::vector<Tensor>& tensors) {
  eval(tensors);
  std::vector<float> all;
  for (const Tensor& x : tensors) all.push_back(static_cast<float>(x.item()));
  return all;
}

TEST_F(JoinedEnds, ResultsStayTheSame) {
  const auto want = values_of(reductions({}));
  for (const DeviceInfo& info : list_devices()) {
    SCOPED_TRACE(to_string(info.device));
    const auto results = reductions(info.device);
    EXPECT_EQ(launches_of(*plan_for(results)).ends, 0U);
    const auto joined = values_of(results);
    const ScopedDisable off("join");
    const auto apart = values_of(reductions(info.device));
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(joined[i])) << i;
        continue;
      }
      if (i % 4 != 1) {
        EXPECT_EQ(joined[i], want[i]) << i;
        EXPECT_EQ(joined[i], apart[i]) << i;
      } else {  // sums may have another order
        EXPECT_NEAR(joined[i], want[i], 1e-5 * std::abs(want[i])) << i;
        EXPECT_NEAR(joined[i], apart[i], 1e-6 * std::abs(want[i])) << i;
      }
    }
  }
}

/// The largest element of each product, the sum of its squares, and the product.
std::vector<Tensor> of_products(Device device, DType dtype) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t rows = 72 + 56 * i;
    const auto matrix = [&](int64_t r, int64_t c) {
      return cast(reshape(numbers(r * c, -7, device), {r, c}) / 100.0, dtype);
    };
    const Tensor product = matmul(matrix(rows, 64), matrix(64, 200)), wide = cast(product, DType::f32);
    all.push_back(max(abs(wide)));
    all.push_back(sum(wide * wide));
    all.push_back(product);
  }
  return all;
}

TEST_F(JoinedEnds, OfProductsKeepTheirBits) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  compile_options().deterministic = true;  // the best guess computes all
  const GpuTraits& traits = testing::traits_of(gpu);
  bool ran = false;
  for (const DType dtype : {DType::f32, DType::f16}) {
    SCOPED_TRACE(to_string(dtype));
    bool tiles = false;
    for (const auto& units : {traits.matrix_units, traits.lane_units})
      tiles |= std::ranges::count(units, dtype, &MatrixUnit::input) > 0;
    if (!tiles) continue;  // the ends are those of loops, as above
    ran = true;
    const auto values = [&](Launches& launches) {
      const auto results = of_products(gpu, dtype);
      launches = launches_of(*plan_for(results));
      eval(results);
      std::vector<std::vector<float>> all;
      for (const Tensor& x : results) all.push_back(cast(x, DType::f32).to(Device{}).to_vector<float>());
      return all;
    };
    Launches together, apart;
    const auto joined = values(together);
    const ScopedDisable off("join");
    const auto want = values(apart);
    EXPECT_EQ(apart.ends, 5U);
    EXPECT_EQ(together.ends, 0U);
    for (size_t i = 0; i < want.size(); ++i) {
      if (i % 3 == 1)
        EXPECT_NEAR(joined[i][0], want[i][0], 1e-5 * want[i][0]) << i;
      else
        EXPECT_EQ(joined[i], want[i]) << i;
      if (i % 3 != 2) continue;
      double largest = 0, squares = 0;
      for (const float x : want[i]) {
        largest = std::max(largest, std::abs(static_cast<double>(x)));
        squares += static_cast<double>(x) * x;
      }
      EXPECT_NEAR(joined[i - 2][0], largest, 1e-3 * largest);
      EXPECT_NEAR(joined[i - 1][0], squares, 1e-3 * squares);
    }
  }
  if (!ran) GTEST_SKIP() << "this device has no tiles";
}

}  // namespace
}  // namespace athanor
