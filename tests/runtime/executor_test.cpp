// The executor on a device that stands in for a GPU: its copies run late, and it captures launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/backends/cpu/memory.h"
#include "athanor/backends/cpu/queue.h"
#include "athanor/base/error.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/kernel.h"
#include "athanor/runtime/executor.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

/// A device in the host's memory, whose copies run when someone waits for them.
class StandIn final : public Backend {
 public:
  static StandIn& instance() {
    static StandIn* only = nullptr;
    if (only == nullptr) {
      only = new StandIn;
      only->provider_ = register_provider(std::unique_ptr<DeviceProvider>(only));
      only->kernels_ = std::make_unique<KernelQueue>(only->device());
      only->copies_ = std::make_unique<CopyQueue>(only->device());
    }
    return *only;
  }
  Device device() const { return {provider_, 0}; }
  size_t copies_under_way() const { return copies_->later.size(); }
  int captures = 0;
  std::string refuses;  // why it does not capture
  std::string fails;    // why it does not replay
  bool throws = false;  // whether capturing ends with an exception

  std::string name() const override { return "stand-in"; }
  std::vector<DeviceInfo> devices() override { return {}; }
  std::shared_ptr<Storage> allocate(int, size_t bytes) override {
    return cpu::allocate_memory(device(), bytes);
  }
  std::vector<Candidate> candidates(int, const KernelRequest&) override { return {}; }
  bool has_kernel(const Op&, std::span<const TensorType>, const TensorType&, const Attrs&) override {
    return false;
  }
  std::vector<Layout> preferred_layouts(const Op&, std::span<const TensorType>, const TensorType&,
                                        const Attrs&) override {
    return {};
  }
  Candidate loop_kernel(int, const LoopProgram&) override { return {}; }
  Queue& queue(int) override { return *kernels_; }
  Queue& copies_in(int) override { return *copies_; }
  Queue& copies_out(int) override { return *copies_; }

 private:
  struct FakeReplay final : Replay {
    explicit FakeReplay(std::function<void()> captured) : commands(std::move(captured)) {}
    void run() override {
      if (const std::string& why = instance().fails; !why.empty()) throw Error(ErrorCode::device, why);
    }
    std::function<void()> commands;
  };
  struct KernelQueue final : cpu::CpuQueue {
    using CpuQueue::CpuQueue;
    bool captures() const override { return true; }
    std::unique_ptr<Replay> capture(const std::function<void()>& commands, std::string& why) override {
      ++instance().captures;
      if (instance().throws) throw Error(ErrorCode::out_of_memory, "no memory");
      why = instance().refuses;
      return why.empty() ? std::make_unique<FakeReplay>(commands) : nullptr;
    }
  };
  struct CopyQueue final : cpu::CpuQueue {
    using CpuQueue::CpuQueue;
    struct Point final : Event {
      Point(CopyQueue& copies, size_t number) : queue(copies), end(number) {}
      bool passed() const override { return queue.run >= end; }
      void wait() const override { settle(); }
      void settle() const noexcept override {
        for (; queue.run < end; ++queue.run, queue.later.pop_front()) queue.later.front()();
      }
      CopyQueue& queue;
      size_t end;
    };
    void copy(Binding to, Binding from, size_t bytes) override {
      auto* const target = static_cast<std::byte*>(to.storage->address()) + to.offset;
      const auto* const source = static_cast<const std::byte*>(from.storage->address()) + from.offset;
      later.emplace_back([=] { std::memcpy(target, source, bytes); });
    }
    std::shared_ptr<Event> record() override { return std::make_shared<Point>(*this, run + later.size()); }
    void finish() override { record()->wait(); }
    std::deque<std::function<void()>> later;
    size_t run = 0;
  };

  StandIn() = default;
  std::unique_ptr<KernelQueue> kernels_;
  std::unique_ptr<CopyQueue> copies_;
  uint8_t provider_ = 0;
};

class Fails final : public Kernel {
 public:
  bool fails = true;

 private:
  void enqueue(Queue&, std::span<const Binding>, const CommandSite*) const override {
    if (fails) throw Error(ErrorCode::numeric, "no such number");
  }
};
class Counts final : public Kernel {
 public:
  mutable int runs = 0;

 private:
  void enqueue(Queue&, std::span<const Binding>, const CommandSite*) const override { ++runs; }
};

Device stand_in() { return StandIn::instance().device(); }

/// Two launches of a kernel, which have scratch memory if they run on the stand-in.
Plan launches(Device device, const std::shared_ptr<const Kernel>& kernel, int64_t scratch_bytes = 256) {
  PlanStep launch;
  launch.device = device;
  launch.ops = {"exp"};
  launch.where = "net.cpp:12";
  launch.kernel.kernel = kernel;
  Plan plan;
  plan.devices = {device};
  plan.queues = {{device}};
  if (device == stand_in()) {
    launch.scratch_offset = 0;
    launch.kernel.scratch_bytes = static_cast<size_t>(scratch_bytes);
    plan.arenas = {{device, scratch_bytes}};
  }
  plan.steps = {launch, launch};
  return plan;
}

/// The same after a copy of an input from the host to the stand-in's arena.
Plan launches_after_a_copy(Device device, const std::shared_ptr<const Kernel>& kernel) {
  Plan plan = launches(device, kernel);
  plan.devices = {Device{}, stand_in()};
  plan.queues.push_back({stand_in(), QueueKind::copies_in});
  plan.arenas = {{stand_in(), 512}};
  plan.inputs = {0};
  plan.values.resize(2);
  plan.values[0].type = {DType::f32, {64}, Device{}};
  plan.values[0].kind = PlanValue::Kind::input;
  plan.values[0].binding = 0;
  plan.values[1].type = {DType::f32, {64}, stand_in()};
  plan.values[1].offset = 256;
  PlanStep copy;
  copy.kind = PlanStep::Kind::copy;
  copy.queue = 1;
  copy.device = stand_in();
  copy.ops = {"copy"};
  copy.buffers = {{0}, {1}};
  copy.reads = {0}, copy.writes = {1};
  plan.steps.insert(plan.steps.begin(), copy);
  return plan;
}

class ExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device.captures = 0;
    device.refuses = device.fails = "";
    device.throws = false;
  }
  void run(const Plan& plan) {
    size_t begun = 0;
    std::vector<std::shared_ptr<Storage>> inputs;
    if (!plan.inputs.empty()) inputs.push_back(input);
    execute(plan, inputs, {}, history, begun);
  }
  StandIn& device = StandIn::instance();
  const std::shared_ptr<Storage> input = allocate(Device{}, 256);
  PlanHistory history;
  const std::shared_ptr<const Counts> kernel = std::make_shared<Counts>();
};

// The memory of a plan that an error ends in the middle is used again.
TEST_F(ExecutorTest, LeavesNoCopyUnderWay) {
  const Plan plan = launches_after_a_copy(Device{}, std::make_shared<Fails>());
  testing::expect_error(ErrorCode::numeric, {"plan step 1 (exp)", "no such number", "net.cpp:12"},
                        [&] { run(plan); });
  EXPECT_EQ(device.copies_under_way(), 0U);
}

TEST_F(ExecutorTest, LeavesNoCopyUnderWayInAReplay) {
  const Plan plan = launches_after_a_copy(device.device(), kernel);
  run(plan);
  device.fails = "cannot replay";
  testing::expect_error(ErrorCode::device, {"cannot replay"}, [&] { run(plan); });
  EXPECT_EQ(device.captures, 1);
  EXPECT_EQ(device.copies_under_way(), 0U);
}

// Captured launches contain the address of their scratch memory.
TEST_F(ExecutorTest, CapturesAgainWhenScratchMemoryHasMoved) {
  release_arenas();
  const Plan plan = launches(device.device(), kernel);
  for (int i = 0; i < 3; ++i) run(plan);
  EXPECT_EQ(history.replays.runs, 2);
  PlanHistory another;
  size_t begun = 0;
  execute(launches(device.device(), kernel, 1 << 20), {}, {}, another, begun);
  run(plan);
  EXPECT_EQ(history.replays.runs, 2);
  run(plan);
  EXPECT_EQ(history.replays.runs, 3);
  EXPECT_EQ(device.captures, 2);
}

// What was not begun keeps its values.
TEST_F(ExecutorTest, BeginsNothingWhenCapturingFails) {
  const Plan plan = launches(device.device(), kernel);
  run(plan);
  device.throws = true;
  size_t begun = 7;
  testing::expect_error(ErrorCode::out_of_memory, {"no memory"},
                        [&] { execute(plan, {}, {}, history, begun); });
  EXPECT_EQ(begun, 0U);
}

// A device that has failed refuses to capture, too. Then the run's own error is the only one.
TEST_F(ExecutorTest, SaysNothingOfCapturingIfTheRunFails) {
  const auto failing = std::make_shared<Fails>();
  const Plan plan = launches(device.device(), failing);
  failing->fails = false;
  device.refuses = "the device has failed";
  run(plan);
  ASSERT_EQ(device.captures, 0);
  failing->fails = true;
  ::testing::internal::CaptureStderr();
  testing::expect_error(ErrorCode::numeric, {"plan step 0 (exp)", "no such number"}, [&] { run(plan); });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(device.captures, 1);
}

TEST_F(ExecutorTest, SaysOnceThatADeviceDoesNotCapture) {
  device.refuses = "out of graphs";
  ::testing::internal::CaptureStderr();
  for (PlanHistory& one : std::array<PlanHistory, 2>()) {
    size_t begun = 0;
    for (int i = 0; i < 4; ++i) execute(launches(device.device(), kernel), {}, {}, one, begun);
    EXPECT_EQ(one.replays.runs, 0);
  }
  EXPECT_EQ(device.captures, 2) << "each plan tries once";
  EXPECT_EQ(kernel->runs, 16) << "and runs all the same";
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::StartsWith("athanor: note: stand-in:0 "));
  EXPECT_THAT(said, ::testing::HasSubstr("(out of graphs)"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

}  // namespace
}  // namespace athanor
