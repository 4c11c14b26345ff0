// Plans with values on several devices: copies as steps, fusion within a device, and queues that wait for
// each other. The second device is an OpenCL driver's, or that of the backend in $ATHANOR_TEST_BACKEND.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "athanor/compile/plan.h"
#include "athanor/kernels/trace.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/expect_error.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

Tensor ramp(const Shape& shape, Device device, double scale = 1) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * (static_cast<double>(i % 13) - 6) / 7);
  return Tensor::from<float>(values, shape, device);
}

/// A step's access to memory: which memory, its first byte and the end, and whether it writes.
struct Use {
  std::string memory;
  int64_t begin, end;
  bool writes;
};

std::vector<Use> uses_of(const Plan& plan, const PlanStep& step) {
  std::vector<Use> all;
  const auto add = [&](int v, bool writes) {
    const PlanValue& value = plan.values[static_cast<size_t>(v)];
    const auto bytes = static_cast<int64_t>(value.type.bytes());
    if (value.kind == PlanValue::Kind::temporary)
      all.push_back({"arena " + to_string(value.type.device), value.offset, value.offset + bytes, writes});
    else
      all.push_back(
          {"value " + std::to_string(value.in_place_of >= 0 ? value.in_place_of : v), 0, 1, writes});
  };
  for (const int v : step.reads) add(v, false);
  for (const int v : step.writes) add(v, true);
  if (step.scratch_offset >= 0)
    all.push_back({"arena " + to_string(step.device), step.scratch_offset,
                   step.scratch_offset + static_cast<int64_t>(step.kernel.scratch_bytes), true});
  return all;
}

bool conflict(const Plan& plan, const PlanStep& a, const PlanStep& b) {
  for (const Use& x : uses_of(plan, a))
    for (const Use& y : uses_of(plan, b))
      if (x.memory == y.memory && x.begin < y.end && y.begin < x.end && (x.writes || y.writes)) return true;
  return false;
}

/// If two steps use the same bytes, queues and waits must ensure that one runs before the other.
void expect_ordered(const Plan& plan) {
  const size_t n = plan.steps.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (size_t s = 0; s < n; ++s) {
    const auto follows = [&](size_t earlier) {
      before[s][earlier] = true;
      for (size_t e = 0; e < n; ++e)
        if (before[earlier][e]) before[s][e] = true;
    };
    for (size_t e = 0; e < s; ++e)
      if (plan.steps[e].queue == plan.steps[s].queue) follows(e);
    for (const int wait : plan.steps[s].waits) {
      EXPECT_LT(wait, static_cast<int>(s));
      EXPECT_TRUE(plan.steps[static_cast<size_t>(wait)].signals);
      follows(static_cast<size_t>(wait));
    }
  }
  for (size_t s = 0; s < n; ++s)
    for (size_t e = 0; e < s; ++e)
      EXPECT_TRUE(before[s][e] || !conflict(plan, plan.steps[e], plan.steps[s]))
          << "step " << s << " may run before " << e << "\n"
          << explain(plan);
}

/// Checks that no kernel gets memory of another device.
void expect_kernels_at_home(const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::launch) continue;
    std::set<Device> devices;
    for (const BufferRef& buffer : step.buffers)
      devices.insert(plan.values[static_cast<size_t>(buffer.value)].type.device);
    EXPECT_EQ(devices, std::set<Device>{step.device}) << step.name();
  }
}

class SeveralDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    gpu = testing::gpu_devices().front().device;
  }
  Device gpu;
};

TEST_F(SeveralDevices, ToCopiesThereAndBack) {
  const Tensor x = ramp({3, 5}, Device{});
  const Tensor there = x.to(gpu);
  EXPECT_EQ(there.device(), gpu);
  EXPECT_EQ(there.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(there.to(Device{}).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(x.to(Device{}).node(), x.node());
  const Tensor whole = Tensor::from<int64_t>({1, -2, 3}, {3}).to(gpu);
  EXPECT_EQ(whole.to_vector<int64_t>(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(ramp({0, 4}, Device{}).to(gpu).to_vector<float>().size(), 0u);
}

// A copy copies memory as it is, so a strided view of another value is put in order first.
TEST_F(SeveralDevices, ToCopiesViewsInTheirOrder) {
  for (const auto& [from, to] : {std::pair(Device{}, gpu), std::pair(gpu, Device{})}) {
    const Tensor x = ramp({3, 4}, from);
    const auto all = x.to_vector<float>();
    const auto expected = [&](auto place, int64_t rows, int64_t columns) {
      std::vector<float> values;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) values.push_back(all[static_cast<size_t>(place(r, c))]);
      return values;
    };
    const auto part = [](int64_t r, int64_t c) { return r * 4 + c + 1; };
    const auto turned = [](int64_t r, int64_t c) { return c * 4 + r; };
    const auto last_row = [](int64_t, int64_t c) { return 8 + c; };
    // The source exists already, or the same plan computes it first.
    for (const Tensor& y : {x, neg(neg(x))}) {
      EXPECT_EQ(slice(y, 1, 1, 3).to(to).to_vector<float>(), expected(part, 3, 2));
      EXPECT_EQ(permute(y, {1, 0}).to(to).to_vector<float>(), expected(turned, 4, 3));
      EXPECT_EQ(slice(y, 0, 2, 3).to(to).to_vector<float>(), expected(last_row, 1, 4));
      EXPECT_EQ(broadcast_to(slice(y, 0, 2, 3), {2, 4}).to(to).to_vector<float>(), expected(last_row, 2, 4));
      EXPECT_EQ(reshape(permute(y, {1, 0}), {2, 6}).to(to).to_vector<float>(), expected(turned, 4, 3));
    }
  }
}

TEST_F(SeveralDevices, ViewsAndNumbersMoveToo) {
  const Tensor x = ramp({3, 5}, Device{});
  const Tensor turned = transpose(x, 0, 1);
  EXPECT_EQ(turned.to(gpu).to_vector<float>(), turned.to_vector<float>());
  const Tensor half = slice(x * 2, 1, 1, 5, 3);
  EXPECT_EQ(half.to(gpu).to_vector<float>(), half.to_vector<float>());
  EXPECT_EQ((full({2, 2}, 3.5).to(gpu) + 1).to_vector<float>(), (std::vector<float>(4, 4.5F)));
}

TEST_F(SeveralDevices, AMessageThatAdvisesItIsRight) {
  const Tensor a = ramp({3}, Device{}), b = ramp({3}, gpu);
  testing::expect_error(ErrorCode::device, {"cpu", to_string(gpu), "x.to(device)"}, [&] { (void)(a + b); });
  const Tensor sum = a.to(gpu) + b;
  EXPECT_EQ(sum.to_vector<float>(), (a + a).to_vector<float>());
}

TEST_F(SeveralDevices, GradientsGoBack) {
  Tensor x = ramp({4, 3}, Device{});
  x.requires_grad();
  const Tensor y = tanh(x.to(gpu) * 3).to(Device{}) * x;
  sum(y).backward();
  const Tensor gradient = x.grad();
  EXPECT_EQ(gradient.device(), Device{});
  Tensor alone = ramp({4, 3}, Device{});
  alone.requires_grad();
  sum(tanh(alone * 3) * alone).backward();
  const std::vector<float> found = gradient.to_vector<float>(), right = alone.grad().to_vector<float>();
  for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(found[i], right[i], 1e-5) << i;
}

TEST_F(SeveralDevices, PendingValuesOnTwoDevicesAreOnePlan) {
  const Tensor a = ramp({64}, Device{}) * 2 + 1, b = ramp({64}, gpu) * 3 - 1;
  reset_evaluation_stats();
  const std::vector<float> at_home = a.to_vector<float>();
  EXPECT_TRUE(b.node()->value != nullptr);
  EXPECT_EQ(evaluation_stats().plans_compiled + evaluation_stats().plans_reused, 1);
  const auto plan = last_plan();
  EXPECT_EQ(plan->devices.size(), 2u);
  EXPECT_EQ(plan->copies(), 0);
  expect_kernels_at_home(*plan);
  const std::vector<float> x = ramp({64}, Device{}).to_vector<float>(), away = b.to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_FLOAT_EQ(at_home[i], x[i] * 2 + 1);
    EXPECT_FLOAT_EQ(away[i], x[i] * 3 - 1);
  }
}

TEST_F(SeveralDevices, FusionStaysWithinADevice) {
  const Tensor x = ramp({40, 30}, Device{});
  const Tensor y = exp((x + 1).to(gpu) * 2).to(Device{}) + (x + 1);
  y.eval();
  const auto plan = last_plan();
  EXPECT_EQ(plan->copies(), 2);
  expect_kernels_at_home(*plan);
  expect_ordered(*plan);
  const std::vector<float> at = x.to_vector<float>(), found = y.to_vector<float>();
  for (size_t i = 0; i < at.size(); ++i)
    EXPECT_NEAR(found[i], std::exp((at[i] + 1) * 2) + at[i] + 1, 1e-4 * std::abs(found[i]));
}

TEST_F(SeveralDevices, ThePlanShowsQueuesWaitsAndCopies) {
  const Tensor y = sum((ramp({40, 30}, Device{}) + 1).to(gpu) * 2);
  y.eval();
  const auto plan = last_plan();
  const std::string text = explain(*plan);
  const std::string queue = to_string(gpu) + " copies in";
  for (const std::string& part :
       std::vector<std::string>{"queue", "from cpu", "after 0", " on cpu, ", "1 copies between them", queue,
                                "Not replayed: no two"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  for (const size_t columns : {80, 120})
    for (const std::string& part : {queue, std::string("after 0")})
      EXPECT_NE(explain(*plan, columns).find(part), std::string::npos) << explain(*plan, columns);
  const nlohmann::json json = to_json(*plan);
  EXPECT_EQ(json["queues"].size(), 3u);
  bool copy = false;
  for (const auto& step : json["steps"])
    if (step["kind"] == "copy") {
      copy = true;
      EXPECT_EQ(json["queues"][step["queue"].get<size_t>()], queue);
      EXPECT_EQ(step["waits"].size(), 1u);
      EXPECT_TRUE(step["signals"]);
    }
  EXPECT_TRUE(copy);
}

// The copy must not be stored in memory that the device may still use, for a value or as scratch memory, even
// if the step that uses it is before the copy's source in the plan.
TEST_F(SeveralDevices, ACopyWaitsForItsSourceOnly) {
  for (const int on_host : {1, 3, 5}) {
    const Tensor early = sum(tanh(matmul(ramp({64, 64}, gpu), ramp({64, 64}, gpu)) * 2), 0, true);
    const Tensor busy =
        matmul(tanh(matmul(early * ramp({64, 64}, gpu), ramp({64, 64}, gpu)) * 2), ramp({64, 64}, gpu));
    Tensor host = ramp({64, 64}, Device{});
    for (int i = 0; i < on_host; ++i) host = matmul(host, ramp({64, 64}, Device{}));
    const Tensor y = matmul(sum(busy, 0, true) * ramp({64, 64}, gpu), host.to(gpu));
    y.eval();
    const auto plan = last_plan();
    expect_ordered(*plan);
    for (const PlanStep& step : plan->steps) {
      if (step.kind != PlanStep::Kind::copy) continue;
      ASSERT_EQ(step.waits.size(), 1U) << explain(*plan);
      const PlanStep& source = plan->steps[static_cast<size_t>(step.waits.front())];
      EXPECT_EQ(source.writes.front(), step.reads.front()) << explain(*plan);
    }
  }
}

TEST_F(SeveralDevices, ATraceShowsTheCopies) {
  const Trace trace;
  const Tensor y = (ramp({40, 30}, Device{}) + 1).to(gpu) * 2;
  y.to_vector<float>();
  const std::string json = nlohmann::json::parse(trace.json()).dump();
  EXPECT_NE(json.find(to_string(gpu) + " copies in"), std::string::npos) << json;
}

// Random graphs over two devices, with arenas whose memory is often reused.
TEST_F(SeveralDevices, QueuesAreInOrderWhateverTheGraph) {
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    const auto build = [&](bool split, std::mt19937 choose) {
      std::vector<Tensor> values{ramp({16, 16}, Device{}, 0.5), ramp({16, 16}, Device{}, 0.25)};
      for (int i = 0; i < 24; ++i) {
        const Tensor a = values[choose() % values.size()], b = values[choose() % values.size()];
        const Device where = choose() % 2 == 0 || !split ? Device{} : gpu;
        const Tensor u = a.to(where), v = b.to(where);
        switch (choose() % 4) {
          case 0:
            values.push_back(matmul(u, v) * 0.1);
            break;
          case 1:
            values.push_back(tanh(u + v));
            break;
          case 2:
            values.push_back(u - mean(v, {0}));
            break;
          default:
            values.push_back(maximum(u, transpose(v, 0, 1)));
        }
      }
      return values.back().to(Device{}) + values[values.size() - 2].to(Device{});
    };
    const std::mt19937 choose(random());
    const std::vector<float> right = build(false, choose).to_vector<float>();
    const Tensor split = build(true, choose);
    const std::vector<float> found = split.to_vector<float>();
    expect_ordered(*last_plan());
    expect_kernels_at_home(*last_plan());
    for (size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(found[i], right[i], 1e-4) << round << " " << i;
  }
}

/// A model whose second half is on another device.
class Split : public nn::Module {
 public:
  explicit Split(Device second) : second_(second) { b.to(second); }
  Tensor forward(const Tensor& x) override { return b(relu(a(x)).to(second_)); }
  nn::Linear& a = add("a", nn::Linear(20, 16));
  nn::Linear& b = add("b", nn::Linear(16, 5));

 private:
  Device second_;
};

std::vector<double> losses_of_training(Device second) {
  manual_seed(3);
  Split model(second);
  const auto optimizer =
      optim::make_optimizer("adamw", model.parameters(), {.lr = 0.05, .weight_decay = 0.01});
  const Tensor x = ramp({32, 20}, Device{});
  std::vector<int64_t> classes(32);
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int64_t>(i * 7 % 5);
  const Tensor labels = Tensor::from<int64_t>(classes, {32}).to(second);
  std::vector<double> losses;
  for (int step = 0; step < 12; ++step) {
    const Tensor loss = cross_entropy(model(x), labels);
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer->step();
    losses.push_back(loss.item());
    if (second != Device{}) expect_ordered(*last_plan());
  }
  return losses;
}

TEST_F(SeveralDevices, ASplitModelTrainsToTheLossesOfOneDevice) {
  const std::vector<double> alone = losses_of_training(Device{}), split = losses_of_training(gpu);
  EXPECT_LT(alone.back(), 0.8 * alone.front());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(split[i], alone[i], 2e-5 * alone[i]) << i;
}

TEST_F(SeveralDevices, TwoDevicesOfABackendShareAPlan) {
  const auto devices = testing::gpu_devices();
  if (devices.size() < 2) GTEST_SKIP() << "there is one " << testing::gpu_backend() << " device here";
  const Device other = devices[1].device;
  const Tensor x = ramp({64, 32}, gpu);
  const Tensor y = sum(matmul((x * 2).to(other), ramp({32, 8}, other)), {1}).to(gpu) + mean(x, {1});
  const std::vector<float> found = y.to_vector<float>();
  expect_ordered(*last_plan());
  const Tensor home = ramp({64, 32}, Device{});
  const std::vector<float> right =
      (sum(matmul(home * 2, ramp({32, 8}, Device{})), {1}) + mean(home, {1})).to_vector<float>();
  for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(found[i], right[i], 1e-4) << i;
}

}  // namespace
}  // namespace athanor
