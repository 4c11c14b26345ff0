// A plan for which a device has too little memory: the error names the step that needs it.
#include <gtest/gtest.h>

#include <string>

#include "athanor/compile/plan.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/kernels/fake_device.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

class NoMemory : public ::testing::Test {
 protected:
  void SetUp() override { compile_options().deterministic = true; }
  void TearDown() override {
    compile_options().deterministic = false;
    fake.most_bytes = SIZE_MAX;
  }
  testing::FakeDevice& fake = testing::FakeDevice::fresh();
};

/// A small layer and a wide one.
class Wide : public nn::Module {
 public:
  explicit Wide(Device device) { to(device); }
  Tensor forward(const Tensor& x) override { return wide(first(x)); }
  nn::Linear& first = add("first", nn::Linear(8, 8));
  nn::Linear& wide = add("wide", nn::Linear(8, 4096));
};

TEST_F(NoMemory, NamesTheStepWhereThePlanNeedsMost) {
  Wide model(fake.device());
  const Tensor x = Tensor::from<float>(std::vector<float>(8 * 16, 0.5F), {16, 8}, fake.device());
  eval({x});
  const Tensor y = mean(model(x), {1});
  fake.most_bytes = 16 * 1024;
  testing::expect_error(ErrorCode::out_of_memory,
                        {"plan step ", " in wide)", "where the plan needs most memory on fake",
                         "cannot allocate ", "no_memory_test.cpp:"},
                        [&] { y.to_vector<float>(); });
  fake.most_bytes = SIZE_MAX;
  EXPECT_EQ(y.to_vector<float>().size(), 16U);  // no values were lost
}

/// A large result without temporaries: [n, 1] becomes [n, 4096].
class Spread : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return x * weight.value(); }
  nn::Parameter weight = add_parameter("weight", uniform({1, 4096}));
};

class Spreading : public nn::Module {
 public:
  explicit Spreading(Device device) { to(device); }
  Tensor forward(const Tensor& x) override { return spread(x); }
  nn::Module& spread = add("spread", Spread());
};

TEST_F(NoMemory, NamesTheStepWhoseResultDoesNotFit) {
  Spreading model(fake.device());
  const Tensor x = Tensor::from<float>(std::vector<float>(16, 0.5F), {16, 1}, fake.device());
  eval({x, model.spread.parameters().front().value()});
  const Tensor y = model(x);
  fake.most_bytes = 16 * 1024;
  testing::expect_error(ErrorCode::out_of_memory,
                        {"plan step ", " in spread), for its result", "no_memory_test.cpp:"},
                        [&] { y.to_vector<float>(); });
}

}  // namespace
}  // namespace athanor
