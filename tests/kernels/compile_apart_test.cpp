// Compiling in other processes of this test program, with a compiler that sleeps, fails or crashes.
#include "athanor/kernels/compile_apart.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/tuner.h"
#include "tests/support/compiler_program.h"
#include "tests/support/expect_error.h"

namespace athanor::testing {
namespace {

constexpr double sleep_seconds = 0.5;

void sleep() { std::this_thread::sleep_for(std::chrono::duration<double>(sleep_seconds)); }

std::string fake_compile(const std::string& target, const std::string& source, const std::string& name) {
  if (source == "crash") raise(SIGSEGV);
  if (source == "wrong") return {};
  if (source == "slow") sleep();
  return target + " " + name + " " + source;
}

const bool fake_registered = register_compiler("fake", fake_compile);

class CompileApart : public CompilerProgramTest {
 protected:
  CompileApart() : CompilerProgramTest("CompilerProcess.DISABLED_Serves") { EXPECT_TRUE(fake_registered); }

  static std::optional<std::string> compile(const std::string& source, const std::string& name = "add") {
    return compile_apart("fake", "chip1", source, name);
  }
};

// Not a test: the other processes run this.
TEST(CompilerProcess, DISABLED_Serves) { serve_compiler("fake", "chip1"); }

TEST_F(CompileApart, GivesTheBinaryOrNone) {
  EXPECT_FALSE(compile("text")) << "without a scope";
  const CompileApartScope scope;
  EXPECT_EQ(compile("text"), "chip1 add text");
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(compile(large), "chip1 add " + large);
  EXPECT_FALSE(compile("wrong"));
  EXPECT_EQ(compile("text", "sub"), "chip1 sub text");
}

TEST_F(CompileApart, SurvivesACompilerThatCrashes) {
  const CompileApartScope scope;
  expect_error(ErrorCode::device, {"chip1", "'broken'"}, [] { compile("crash", "broken"); });
  EXPECT_EQ(compile("text"), "chip1 add text");
}

TEST_F(CompileApart, LeavesNoProcess) {
  {
    const CompileApartScope scope;
    const CompileApartScope inner;
    EXPECT_TRUE(compile("text"));
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(CompileApart, DoesWithoutAProgram) {
  const CompileApartScope scope;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"/nowhere/at/all"}, {"/bin/true"}}) {
    set_compiler_program(words);
    EXPECT_FALSE(compile("text"));
    EXPECT_FALSE(compile("text"));
  }
}

// Like the kernels of a driver whose compiler only one thread may enter at a time.
struct SlowKernel : Kernel {
  mutable std::atomic<int> times = 0;
  mutable std::atomic<bool> apart = false;
  void prepare() const override {
    static std::mutex compiling;
    std::unique_lock turn(compiling, std::defer_lock);
    ++times;
    if (!turn.try_lock()) {
      apart = compile_apart("fake", "chip1", "slow", "add").has_value();
      if (apart) return;
      turn.lock();
    }
    sleep();
  }
  void enqueue(Queue&, std::span<const Binding>, const CommandSite*) const override {}
};

TEST_F(CompileApart, CompilesAPlansKernelsAtTheSameTime) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "there is one core";
  constexpr size_t count = 8;
  std::vector<SlowKernel> kernels(count);
  std::vector<Uncompiled> all;
  for (const SlowKernel& kernel : kernels) all.push_back({&kernel, Device{}});
  const auto start = Clock::now();
  prepare(all);
  const double seconds = seconds_since(start);
  EXPECT_LT(seconds, 0.75 * count * sleep_seconds);
  size_t apart = 0;
  for (const SlowKernel& kernel : kernels) {
    EXPECT_EQ(kernel.times, 1);
    apart += kernel.apart ? 1 : 0;
  }
  EXPECT_GE(apart, 2U);
  EXPECT_LT(apart, count);
}

}  // namespace
}  // namespace athanor::testing
