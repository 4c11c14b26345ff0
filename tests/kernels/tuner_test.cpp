// How the tuner evaluates timings, on a device whose clock the tests set.
#include "athanor/kernels/tuner.h"
#include "athanor/kernels/tuning_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "athanor/compile/options.h"
#include "athanor/kernels/contest.h"
#include "athanor/kernels/guess.h"
#include "athanor/kernels/references.h"
#include "athanor/kernels/timing.h"
#include "athanor/ops/ops.h"
#include "tests/backends/loop_programs.h"
#include "tests/kernels/fake_device.h"
#include "tests/support/expect_error.h"
#include "tests/support/left_mark.h"

namespace athanor {
namespace {

using testing::FakeDevice;
using ::testing::HasSubstr;

class Tuner : public ::testing::Test {
 protected:
  void SetUp() override { next_process(); }
  void TearDown() override {
    pretend_load({});
    TuningCache::instance().start_anew();
  }

  static void next_process() {
    TuningCache::instance().start_anew();
    pretend_load(0.0);
  }

  static KernelRequest product(int64_t m, int64_t n = 64, int64_t k = 64) {
    const auto dense = [](const Shape& shape) {
      return OperandDesc{DType::f32, shape, {}, contiguous_strides(shape)};
    };
    return {.op = &find_op("batch_matmul"),
            .attrs = {},
            .inputs = {dense({1, m, k}), dense({1, k, n})},
            .outputs = {dense({1, m, n})},
            .epilogue = {}};
  }

  struct Chosen {
    std::string name, why;
  };
  Chosen chosen(const KernelRequest& request, Choosing how = Choosing::timed) {
    const auto candidates = fake_.candidates(0, request);
    const Choice choice = choose(fake_.device(), request, candidates, how);
    return {candidates[choice.index].name, choice.why};
  }
  static int64_t timed() { return TuningCache::instance().timed(); }

  /// Makes "b" the fastest.
  void quiet() {
    fake_.timer = [](const std::string& name, int runs) { return runs * (name == "b" ? 20e-6 : 24e-6); };
  }
  void busy() {
    pretend_load(0.5);
    fake_.timer = [](const std::string& name, int runs) { return runs * 24e-6 + (name == "b" ? 7e-3 : 0); };
  }

  FakeDevice& fake_ = FakeDevice::fresh();
};

TEST_F(Tuner, RemembersWhatAQuietMachineGave) {
  quiet();
  EXPECT_EQ(chosen(product(40)).name, "b");
  EXPECT_EQ(timed(), 1);
  next_process();
  const Chosen again = chosen(product(40));
  EXPECT_EQ(again.name, "b");
  EXPECT_EQ(again.why, "remembered as the fastest of 3");
  EXPECT_EQ(timed(), 0);
}

// After products at the peak, a direct convolution at the peak seemed to be the best possible, and Winograd's
// was not tried.
TEST_F(Tuner, TriesWhatMultipliesLessAboveTheRoofline) {
  const double rate = 1e11, at_peak = 2.0 * 40 * 64 * 64 / rate;
  const auto reach_peak = [&] {
    for (int i = 0; i < 8; ++i)
      KernelCache::instance().raise_peak(environment_key(fake_.device()), rate, 1e13);
  };
  fake_.timer = [&](const std::string& name, int runs) { return runs * at_peak * (name == "b" ? 0.5 : 1); };
  reach_peak();
  const Chosen without = chosen(product(40));
  EXPECT_EQ(without.name, "a");
  EXPECT_THAT(without.why, HasSubstr("near the roofline, 2 not tried"));

  FakeDevice::fresh().fewer_products = "b";
  reach_peak();
  EXPECT_EQ(chosen(product(40)).name, "b");
  // Its rate is no peak of the device.
  EXPECT_EQ(KernelCache::instance().find_peak(environment_key(fake_.device())).flops_per_second, rate);
}

TEST_F(Tuner, TimesAgainWhatABusyMachineGave) {
  busy();
  const Chosen first = chosen(product(40));
  EXPECT_NE(first.name, "b");
  EXPECT_THAT(first.why, HasSubstr("provisional (the machine was busy)"));

  next_process(), busy();
  const Chosen still = chosen(product(40));
  EXPECT_EQ(still.name, first.name);
  EXPECT_THAT(still.why, ::testing::EndsWith("provisional"));
  EXPECT_EQ(timed(), 0) << "nothing better could come of it";

  next_process(), quiet();
  const Chosen better = chosen(product(40));
  EXPECT_EQ(better.name, "b");
  EXPECT_EQ(better.why, "fastest of 3 by timing, again");
  next_process();
  EXPECT_EQ(chosen(product(40)).name, "b");
  EXPECT_EQ(timed(), 0);
}

TEST_F(Tuner, KeepsItsChoiceWhileTheProcessLives) {
  busy();
  const std::string first = chosen(product(40)).name;
  pretend_load(0.0), quiet();
  EXPECT_EQ(chosen(product(40)).name, first);
  EXPECT_EQ(timed(), 1);
}

TEST_F(Tuner, KeepsTheChoicesOfARunThatIsResumed) {
  busy();
  const std::string first = chosen(product(40)).name;
  const auto run = TuningCache::instance().used();
  next_process(), quiet();
  TuningCache::instance().restore(run);
  EXPECT_EQ(chosen(product(40)).name, first);
  EXPECT_EQ(timed(), 0);
}

TEST_F(Tuner, TakesWhatNeverBecomesSteadyInTheEnd) {
  fake_.timer = [row = 0](const std::string& name, int runs) mutable {
    const double from_0_to_1 = std::fmod(0.618 * ++row, 1);  // evenly distributed
    return runs * (name == "b" ? 20e-6 : 30e-6) * (1 + 2 * from_0_to_1);
  };
  EXPECT_THAT(chosen(product(40)).why, HasSubstr("provisional (samples differ)"));
  for (int process = 1; process < most_disturbed; ++process) {
    next_process();
    EXPECT_EQ(chosen(product(40)).name, "b");
    EXPECT_EQ(timed(), 1);
  }
  next_process();
  EXPECT_EQ(chosen(product(40)).why, "remembered as the fastest of 3");
  EXPECT_EQ(timed(), 0);
}

// Next to another virtual machine, a core can be half as fast for a while, and all samples meanwhile agree.
TEST_F(Tuner, FindsTheFastestWhereTheMachineIsSlowForAWhile) {
  for (const double mean : {3e-3, 10e-3, 30e-3, 100e-3, 300e-3})
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::minstd_rand random(seed + 1);
      std::exponential_distribution<double> length(1 / mean);
      bool slow = seed % 2 == 0;
      double now = 0, until = length(random);
      FakeDevice::fresh().timer = [&](const std::string& name, int runs) {
        double seconds = 0;
        for (int run = 0; run < runs; ++run) {
          const double one = (name == "b" ? 20e-6 : 27e-6) * (slow ? 1.95 : 1);
          seconds += one, now += one;
          for (; now > until; until += length(random)) slow = !slow;
        }
        return seconds;
      };
      next_process();
      EXPECT_EQ(chosen(product(40)).name, "b") << "phases of " << mean << " s, seed " << seed;
    }
}

TEST_F(Tuner, DoesNotMindTheHostsLoadWhereTheDeviceIsAnother) {
  fake_.kind = "gpu";
  quiet();
  pretend_load(0.5);
  EXPECT_EQ(chosen(product(40)).why, "fastest of 3 by timing");
}

TEST_F(Tuner, TimesOneOfNeighbouringShapes) {
  quiet();
  for (int64_t rows = 65; rows <= 128; ++rows) EXPECT_EQ(chosen(product(rows)).name, "b") << rows;
  EXPECT_EQ(timed(), 1);
  EXPECT_THAT(chosen(product(100)).why, HasSubstr("alike"));
  next_process();
  EXPECT_EQ(chosen(product(100)).why, "remembered from a problem that is alike");
  const Chosen another = chosen(product(66, 65));
  EXPECT_EQ(another.name, "b");
  EXPECT_EQ(timed(), 1) << "another bucket";
  EXPECT_THAT(chosen(product(67, 66)).why, ::testing::Eq("as for [1, 66, 64] [1, 64, 65]"));
  EXPECT_EQ(timed(), 1);
}

TEST_F(Tuner, TimesEachShapeWhereKernelsAreLong) {
  fake_.timer = [](const std::string& name, int runs) { return runs * (name == "b" ? 20e-3 : 24e-3); };
  chosen(product(65));
  EXPECT_EQ(chosen(product(128)).why, "fastest of 3 by timing");
  EXPECT_EQ(timed(), 2);
}

TEST_F(Tuner, ChecksWhatItTakesFromANeighbour) {
  quiet();
  EXPECT_EQ(chosen(product(65)).name, "b");
  fake_.wrong = "b";
  EXPECT_NE(chosen(product(128)).name, "b");
  EXPECT_EQ(timed(), 2);
}

TEST_F(Tuner, SaysWhichKernelsItDropped) {
  quiet();
  fake_.wrong = "b";
  const auto candidates = fake_.candidates(0, product(40));
  const auto dropped = [&](Choosing how) {
    const Choice choice = choose(fake_.device(), product(40), candidates, how);
    std::string text = candidates[choice.index].name;
    for (const LeftOut& one : choice.dropped) text += fmt::format("; {}: {}", one.name, one.why);
    return text;
  };
  EXPECT_THAT(dropped(Choosing::timed), ::testing::EndsWith("; b: its results are wrong"));
  next_process();
  EXPECT_THAT(dropped(Choosing::timed), HasSubstr("; b: was wrong, could not run or was not needed"));
}

// The next process tries the kernel again.
TEST_F(Tuner, LeavesNoMarkWhereTheHostHasNoMemory) {
  quiet();
  fake_.prepared = [](const std::string& name) {
    if (name == "b") throw std::bad_alloc();
  };
  EXPECT_THROW(chosen(product(40)), std::bad_alloc);
  EXPECT_EQ(testing::our_marks(problem_key(fake_.device(), product(40))), 0);
}

TEST_F(Tuner, DropsAKernelThatFailsWhenTheBestTakeTurns) {
  int calls = 0;
  fake_.timer = [&](const std::string& name, int runs) {
    if (name == "b" && ++calls == 30) throw Error(ErrorCode::device, "cannot launch the kernel 'b'");
    return runs * (name == "b" ? 20e-6 : 24e-6);
  };
  const auto candidates = fake_.candidates(0, product(40));
  const Choice choice = choose(fake_.device(), product(40), candidates, Choosing::timed);
  EXPECT_GE(calls, 30);
  EXPECT_NE(candidates[choice.index].name, "b");
  ASSERT_EQ(choice.dropped.size(), 1U);
  EXPECT_EQ(choice.dropped.front().why, "cannot launch the kernel 'b'");
}

TEST_F(Tuner, RemembersNothingOfADeviceThatIsLost) {
  for (const int last : {0, 10, 25, 35}) {  // while all candidates are timed, and while the best take turns
    next_process();
    int calls = 0;
    fake_.timer = [&](const std::string& name, int runs) {
      if (++calls > last) throw Error(ErrorCode::device, "cannot launch a kernel", "net.cpp:12");
      return runs * (name == "b" ? 20e-6 : 24e-6);
    };
    const KernelRequest request = product(300 + last, 300);
    testing::expect_error(ErrorCode::device, {"cannot launch a kernel", "net.cpp:12"}, [&] {
      (void)choose(fake_.device(), request, fake_.candidates(0, request), Choosing::timed);
    });
    EXPECT_FALSE(TuningCache::instance().has_timed(problem_key(fake_.device(), request))) << last;
  }
}

TEST_F(Tuner, DropsAKernelThatIsFasterBecauseItIsLessExact) {
  quiet();
  fake_.wrong = "b";
  fake_.wrong_by = 1e-6F;  // as with another order of additions
  EXPECT_EQ(chosen(product(40)).name, "b");
  next_process();
  fake_.wrong_by = 3e-4F;  // as with factors rounded to 11 bits, which tf32 has
  EXPECT_NE(chosen(product(41)).name, "b");
}

// The host would be slow for these, so candidates are compared with each other, here with "c" at first.
TEST_F(Tuner, OfLargeProblemsTheHostTellsWhichOfTwoKernelsIsWrong) {
  const KernelRequest large = product(2048, 1024, 1024);
  quiet();
  fake_.kind = "gpu";
  fake_.wrong = "b";
  EXPECT_NE(chosen(large).name, "b");
  for (const char* wrong : {"a", "c"}) {
    next_process();
    FakeDevice& fresh = FakeDevice::fresh();
    fresh.kind = "gpu";
    fresh.wrong = wrong;
    quiet();
    const auto candidates = fresh.candidates(0, large);
    const Choice timed = choose(fresh.device(), large, candidates, Choosing::timed);
    EXPECT_EQ(candidates[timed.index].name, "b") << wrong << " is wrong";
  }
  next_process();
  FakeDevice& fresh = FakeDevice::fresh();
  fresh.kind = "gpu";
  fresh.wrong = "a";
  Choice guessed{.index = 0, .why = "best guess", .measured = {}, .unchecked = true};
  const auto candidates = fresh.candidates(0, large);
  check_guess(fresh.device(), large, candidates, guessed);
  EXPECT_NE(candidates[guessed.index].name, "a");
  EXPECT_FALSE(guessed.unchecked);
}

// The only kernel that knows the epilogue is compared with one of another make and a loop behind it.
TEST_F(Tuner, AnEpilogueIsComparedWithThatOfALoop) {
  KernelRequest large = product(2048, 1024, 1024);
  testing::Builder b({1, 2048, 1024});
  const Ints whole = contiguous_strides({1, 2048, 1024});
  b.store(b.op(Prim::neg, DType::f32, b.load(0, DType::f32, whole)), 1, DType::f32, whole);
  large.epilogue = b.p;
  for (const char* wrong : {"", "a", "c"}) {
    next_process();
    FakeDevice& fake = FakeDevice::fresh();
    fake.kind = "gpu";
    fake.names = {"a", "a of another size", "c"};
    fake.names_with_epilogue = {"a"};
    fake.scratch["c"] = 64;  // the fake looks for the result in front of it
    fake.wrong = wrong;
    std::set<std::string> used;
    fake.prepared = [&](const std::string& name) { used.insert(name); };
    Choice guessed{.index = 0, .why = "best guess", .measured = {}, .unchecked = true};
    const auto candidates = fake.candidates(0, large);
    const auto check = [&] { check_guess(fake.device(), large, candidates, guessed); };
    if (fake.wrong == "a")
      testing::expect_error(ErrorCode::device, {"no kernel of batch_matmul can be used"}, check);
    else
      check();
    EXPECT_EQ(guessed.unchecked, fake.wrong == "a");
    EXPECT_THAT(used, ::testing::ElementsAre("a", "c")) << wrong << " is wrong";
  }
  FakeDevice& cpu = FakeDevice::fresh();
  cpu.names_with_epilogue = {"a"};
  EXPECT_TRUE(references(cpu.device(), large, cpu.candidates(0, large), 0).empty())
      << "the host is as fast as this device";
}

// On many cores, compiling all kernels at once takes as long as the largest one alone.
TEST_F(Tuner, WhatAGuessIsComparedWithIsCompiledWithTheGuesses) {
  FakeDevice& fake = FakeDevice::fresh();
  fake.kind = "gpu";
  std::mutex mutex;
  std::vector<std::string> used;
  fake.prepared = [&](const std::string& name) {
    const std::scoped_lock lock(mutex);
    used.push_back(name);
  };
  const auto of_ones = [&](const Shape& shape) { return ones(shape, DType::f32, fake.device()); };
  const Tensor result = matmul(of_ones({2048, 1024}), of_ones({1024, 1024}));
  CompileOptions options;
  options.tuning = Tuning::quick;
  std::swap(compile_options(), options);
  EXPECT_EQ(result.to_vector<float>().back(), 1024);
  std::swap(compile_options(), options);
  ASSERT_GT(used.size(), 4U);
  EXPECT_THAT((std::vector<std::string>{used[0], used[1]}), ::testing::UnorderedElementsAre("a", "c"));
  EXPECT_EQ(used[2], "c") << "the kernel whose result is expected runs first";
  EXPECT_EQ(used[3], "a");
}

TEST(KernelRequest, SaysWhatIsComputedIn) {
  KernelRequest request{&find_op("batch_matmul"), {}, {}, {{DType::f16, {1, 64, 64}, {}, {4096, 64, 1}}}, {}};
  for (int i = 0; i < 2; ++i) request.inputs.push_back(request.output());
  EXPECT_EQ(request.key(), "batch_matmul f16[1, 64, 64] f16[1, 64, 64] -> f16[1, 64, 64] in f32");
  for (OperandDesc* one : {&request.inputs[0], &request.inputs[1], &request.outputs[0]})
    one->dtype = DType::f32;
  const double exact = request.rounding();
  const std::string key = request.key();
  EXPECT_THAT(key, ::testing::EndsWith("-> f32[1, 64, 64]"));
  request.compute = ComputeType::tf32;
  EXPECT_EQ(request.key(), key + " in tf32");
  EXPECT_GT(request.rounding(), 10 * exact) << "less exact kernels are right for this request alone";
  EXPECT_TRUE(backend_of(Device{}).candidates(0, request).empty()) << "the CPU does not compute so";
}

TEST_F(Tuner, TakesTheWinnerOfAnotherDriverAsAGuess) {
  quiet();
  fake_.driver = "1.0";
  EXPECT_EQ(chosen(product(40)).name, "b");
  next_process();
  fake_.driver = "2.0";
  const Chosen guessed = chosen(product(40), Choosing::guess);
  EXPECT_EQ(guessed.name, "b");
  EXPECT_EQ(guessed.why, "as on this device with another driver");
  EXPECT_EQ(chosen(product(41), Choosing::guess).name, "a") << "of another problem";
  EXPECT_EQ(timed(), 0);
  // A timing on this device counts for more.
  next_process();
  fake_.timer = [](const std::string& name, int runs) { return runs * (name == "c" ? 20e-6 : 24e-6); };
  EXPECT_EQ(chosen(product(40)).name, "c");
  EXPECT_EQ(timed(), 1);
  next_process();
  EXPECT_EQ(chosen(product(40), Choosing::guess).name, "c");
}

TEST_F(Tuner, TakesNothingFromNeighboursWithoutTuning) {
  quiet();
  EXPECT_EQ(chosen(product(65)).name, "b");
  const Chosen first = chosen(product(128), Choosing::first);
  EXPECT_EQ(first.name, "a");
  EXPECT_THAT(first.why, HasSubstr("tuning is off"));
}

}  // namespace
}  // namespace athanor
