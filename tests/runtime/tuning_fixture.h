// The base of tests of tuning: a device whose kernels' times the tests set, and simulated processes, one
// after another, that share only the cache.
#pragma once
#include "athanor/kernels/timing.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/runtime/evaluate.h"
#include "tests/kernels/fake_device.h"

namespace athanor::testing {

/// `Fixture`: another base class that the tests need, or ::testing::Test.
template <class Fixture>
class TuningTest : public Fixture {
 protected:
  void SetUp() override {
    set_trusting(true);
    next_process();
  }
  void TearDown() override {
    set_trusting(false);
    pretend_load({});
    next_process();
  }
  static void next_process() {
    TuningCache::instance().start_anew();
    clear_plan_cache();
    reset_evaluation_stats();
    pretend_load(0.0);
  }

  FakeDevice& fake_ = FakeDevice::fresh();
};

}  // namespace athanor::testing
