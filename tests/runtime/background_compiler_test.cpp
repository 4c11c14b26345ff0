// Threads that compile ahead: they start and end as needed, and end at once even if a compiler hangs.
#include "athanor/runtime/background_compiler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "athanor/base/clock.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/compile_apart.h"
#include "tests/support/compiler_program.h"
#include "tests/support/left_mark.h"

namespace athanor {
namespace {

using namespace std::chrono_literals;
using testing::our_marks;

// A compiler that hangs.
std::string hang(const std::string&, const std::string&, const std::string&) {
  std::this_thread::sleep_for(10min);
  return {};
}
const bool hang_registered = register_compiler("hangs", hang);

// Not a test: the other process runs this.
TEST(HangingCompiler, DISABLED_Serves) { serve_compiler("hangs", "chip1"); }

struct KernelOfCompiler : Kernel {
  mutable std::atomic<bool> begun = false;
  void prepare() const override {
    begun = true;
    compile_apart("hangs", "chip1", "text", "add");
  }
  void enqueue(Queue&, std::span<const Binding>, const CommandSite*) const override {}
};

// A kernel that a driver compiles in this process.
struct KernelOfDriver : Kernel {
  mutable std::atomic<bool> begun = false;
  std::atomic<bool> goes_on = false;
  void prepare() const override {
    begun = true;
    begun.notify_all();
    goes_on.wait(false);
  }
  void enqueue(Queue&, std::span<const Binding>, const CommandSite*) const override {}
};

struct QuickKernel : Kernel {
  void enqueue(Queue&, std::span<const Binding>, const CommandSite*) const override {}
};

Candidate quick(int number) {
  return {"quick " + std::to_string(number), 0, std::make_shared<QuickKernel>()};
}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 5000 && !done(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(done());
}

TEST(BackgroundCompilers, KeepNoThreadsThatHaveEnded) {
  BackgroundCompiler compiler(1ms);
  for (int i = 0; i < 8; ++i) {
    compiler.add("problem", quick(i));
    wait_until([&] { return compiler.is_done("problem", quick(i)) && compiler.threads() == 1; });
    std::this_thread::sleep_for(5ms);  // the compiler has nothing to do
  }
  EXPECT_LE(compiler.threads(), 2U);
}

TEST(BackgroundCompilers, GoOnAfterAKernelForWhichThereIsNoMemory) {
  struct LargeKernel : QuickKernel {
    void prepare() const override { throw std::bad_alloc(); }
  };
  const Candidate large{"large", 0, std::make_shared<LargeKernel>()};
  BackgroundCompiler compiler;
  compiler.add("memory", large);
  compiler.add("memory", quick(0));
  wait_until([&] { return compiler.is_done("memory", large) && compiler.is_done("memory", quick(0)); });
  EXPECT_EQ(our_marks("background|memory"), 0);
}

TEST(BackgroundCompilers, LeaveADriversCompilerBehind) {
  const auto stuck = std::make_shared<KernelOfDriver>();
  std::optional<BackgroundCompiler> compiler(std::in_place);
  compiler->allow(2);
  compiler->add("driver", {"stuck", 0, stuck});
  stuck->begun.wait(false);
  compiler->add("driver", quick(0));
  wait_until([&] { return compiler->is_done("driver", quick(0)); });
  EXPECT_EQ(compilers_left_behind(), 0U);
  const auto start = Clock::now();
  compiler.reset();
  EXPECT_LT(seconds_since(start), 10) << "it does not wait for a minute";
  EXPECT_EQ(compilers_left_behind(), 1U);
  EXPECT_EQ(our_marks("background|driver"), 1) << "it may end the program";
  stuck->goes_on = true;
  stuck->goes_on.notify_all();
  wait_until([] { return compilers_left_behind() == 0; });
  EXPECT_EQ(our_marks("background|driver"), 0);
}

TEST(BackgroundCompilersDeathTest, LetAProgramEndThatDoesNotWait) {
  const auto run = [] {
    const auto stuck = std::make_shared<KernelOfDriver>();
    {
      BackgroundCompiler compiler;
      compiler.add("left", {"stuck", 0, stuck});
      stuck->begun.wait(false);
    }
    std::_Exit(compilers_left_behind() == 1 ? 7 : 1);
  };
  const auto forget = [] { KernelCache::instance().unmark("background|left", "stuck"); };
  forget();
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(7), "");
  forget();
}

class StuckCompiler : public testing::CompilerProgramTest {
 protected:
  StuckCompiler() : CompilerProgramTest("HangingCompiler.DISABLED_Serves") { EXPECT_TRUE(hang_registered); }

  /// The seconds that the compiler takes to end.
  double end(std::optional<BackgroundCompiler>& compiler) {
    compiler->add("stuck", {"kernel", 0, kernel_});
    wait_until([&] { return kernel_->begun.load(); });
    std::this_thread::sleep_for(200ms);  // until the other process has begun to compile
    EXPECT_EQ(compiler->waiting(), 1U);
    const auto start = Clock::now();
    compiler.reset();
    return seconds_since(start);
  }

  std::shared_ptr<KernelOfCompiler> kernel_ = std::make_shared<KernelOfCompiler>();
};

TEST_F(StuckCompiler, EndsWithTheRun) {
  std::optional<BackgroundCompiler> compiler(std::in_place);
  EXPECT_LT(end(compiler), 5);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no process is left";
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(our_marks("background|stuck"), 0) << "it is tried again";
}

TEST_F(StuckCompiler, EndsWithARunThatIsInterrupted) {
  const InterruptScope noted;
  std::optional<BackgroundCompiler> compiler(std::in_place);
  request_interrupt(SIGINT);
  EXPECT_LT(end(compiler), 5);
  request_interrupt(0);
}

}  // namespace
}  // namespace athanor
