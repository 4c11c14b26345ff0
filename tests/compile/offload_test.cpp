// Optimizer state in the host's memory: the plan copies it to the device and back, late and as kernels run.
#include <gtest/gtest.h>

#include <algorithm>

#include "athanor/compile/plan.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {
namespace {

nn::Sequential wide_net(Device device) {
  manual_seed(4);
  nn::Sequential net(nn::Linear(64, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                     nn::Linear(1024, 1024), nn::ReLU(), nn::Linear(1024, 8));
  net.to(device);
  return net;
}

std::shared_ptr<const Plan> plan_of_step(Device device, bool offloaded) {
  nn::Sequential net = wide_net(device);
  optim::AdamW optimizer(net.parameters());
  if (offloaded) optimizer.offload_state();
  eval({});
  const Tensor loss = mean(square(net(Tensor::placeholder({DType::f32, {32, 64}, device}))));
  loss.backward();
  optimizer.step();
  return plan_for({loss});
}

TEST(Offload, TakesTheStateOffTheDevice) {
  const Device gpu = parse_device("offline");
  const auto kept = plan_of_step(gpu, false), offloaded = plan_of_step(gpu, true);
  int64_t parameters = 0;
  for (const auto& parameter : wide_net({}).parameters())
    parameters += static_cast<int64_t>(parameter.value().type().bytes());
  const int64_t saved = kept->planned_memory_bytes(gpu) - offloaded->planned_memory_bytes(gpu);
  EXPECT_GT(saved, parameters);  // not twice as much, because copies in progress take memory
  EXPECT_GE(offloaded->planned_memory_bytes(Device{}), 2 * parameters);
  EXPECT_EQ(offloaded->copies(), 4 * 8);  // two tensors of each parameter, to the device and back
  EXPECT_NE(explain(*offloaded).find("32 copies between them"), std::string::npos);
  // State that is copied back is stored in place of the old state.
  for (const int v : offloaded->outputs) {
    const PlanValue& value = offloaded->values[static_cast<size_t>(v)];
    if (value.type.device == Device{}) {
      EXPECT_GE(value.in_place_of, 0);
    }
  }
  // Copies run on their own queue, and not at the start.
  const auto is_copy = [](const PlanStep& step) { return step.kind == PlanStep::Kind::copy; };
  const auto first = std::ranges::find_if(offloaded->steps, is_copy) - offloaded->steps.begin();
  EXPECT_GT(first, 2);
  // In two directions at the same time, on a bus that can.
  for (const PlanStep& step : offloaded->steps)
    if (is_copy(step)) {
      const QueueKind kind = step.device == Device{} ? QueueKind::copies_out : QueueKind::copies_in;
      EXPECT_EQ(offloaded->queues[static_cast<size_t>(step.queue)], (PlanQueue{gpu, kind}));
    }
}

TEST(Offload, TrainsToTheSameBitsOnEveryDevice) {
  for (const DeviceInfo& info : list_devices()) {
    if (info.device == Device{}) continue;
    SCOPED_TRACE(to_string(info.device));
    const CompileOptions before = compile_options();
    compile_options().deterministic = true;
    std::vector<nn::StateDict> states;
    for (const bool offloaded : {false, true}) {
      manual_seed(4);
      nn::Sequential net(nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4));
      net.to(info.device);
      optim::AdamW optimizer(net.parameters());
      if (offloaded) optimizer.offload_state();
      Generator random(2);
      const Tensor x = normal({4, 8}, 0, 1, DType::f32, random, info.device);
      for (int step = 0; step < 2; ++step) {
        const Tensor loss = mean(square(net(x)));
        loss.backward();
        optimizer.step();
        loss.item();
      }
      states.push_back(net.state_dict());
    }
    compile_options() = before;
    for (const auto& [name, value] : states[0]) EXPECT_EQ(value.bytes, states[1].at(name).bytes) << name;
  }
}

}  // namespace
}  // namespace athanor
