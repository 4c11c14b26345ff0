// Programs with limited memory or files: they end with a message, whatever failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "athanor/train/memory_advice.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using ::testing::StartsWith;

bool has_pictures() {
  return std::filesystem::exists("/usr/share/datasets/fashion-mnist") ||
         std::getenv("ATHANOR_DATA") != nullptr;
}

using Limits = testing::ProgramTest;

/// Limits this process and its children while it exists.
class Limit {
 public:
  Limit(__rlimit_resource what, uint64_t bytes) : what_(what) {
    getrlimit(what_, &before_);
    const rlimit lower{bytes, before_.rlim_max};
    setrlimit(what_, &lower);
  }
  ~Limit() { setrlimit(what_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource what_;
  rlimit before_{};
};

// If the program cannot even be loaded, the system reports it ("out of memory" is its loader's message too).
// If OpenMP cannot start its threads, that library reports it.
void expect_named(const Outcome& outcome, uint64_t kib) {
  EXPECT_THAT(outcome.err, AnyOf(HasSubstr("ulimit -v"), HasSubstr("error while loading shared libraries"),
                                 HasSubstr("cannot allocate TLS data structures"), StartsWith("\nlibgomp: "),
                                 "out of memory\n"))
      << kib << " KiB, exit code " << outcome.exit_code;
}

TEST_F(Limits, OfMemoryAreNamedWhenTheyAreReached) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  if (!has_pictures()) GTEST_SKIP() << "Fashion-MNIST is not installed";
  size_t failed = 0;
  const auto at = [&](uint64_t mib, const std::vector<std::string>& words) {
    const Outcome outcome = [&] {
      const Limit limit(RLIMIT_AS, mib << 20);
      return run(words);
    }();
    if (outcome.exit_code == 0) return;
    ++failed;
    expect_named(outcome, mib << 10);
  };
  std::vector<uint64_t> sizes{64, 72, 80, 90, 100, 130, 160};
  for (uint64_t mib = 115; mib <= 125; ++mib) sizes.push_back(mib);  // the limits at which threads start
  for (const uint64_t mib : sizes) {
    at(mib, {"explain", "--model", "cnn", "--device", "cpu", "--deterministic"});
    at(mib, {"train", "--model", "mlp", "--device", "cpu", "--deterministic", "--max-steps", "1", "--quiet",
             "--out", "run" + std::to_string(mib)});
  }
  EXPECT_GT(failed, 3U);
}

// Constructors of libraries and of Athanor allocate before main() runs, in every command.
TEST_F(Limits, OfMemoryAreNamedWhileItStarts) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  const auto help = [&](uint64_t kib) {
    const Limit limit(RLIMIT_AS, kib << 10);
    return run({"--help"});
  };
  // The least limit with which the program starts depends on its libraries: find it, and test the ones below.
  constexpr uint64_t page = 64, mib = 1 << 10;
  uint64_t fails = 8 * mib, starts = 512 * mib;
  ASSERT_EQ(help(starts).exit_code, 0);
  while (starts - fails > page) {
    const uint64_t middle = (starts + fails) / 2;
    (help(middle).exit_code == 0 ? starts : fails) = middle;
  }
  size_t ours = 0;
  for (uint64_t kib = fails; kib > fails - 2 * mib; kib -= page) {
    const Outcome outcome = help(kib);
    if (outcome.exit_code == 0) continue;
    expect_named(outcome, kib);
    if (outcome.err.find("ulimit -v") != std::string::npos) ++ours;
  }
  EXPECT_GT(ours, 0U);
}

// Plans of smaller batches would be good advice, but libraries that compile for them crash without memory.
TEST(MemoryAdvice, MakesNoPlansIfLittleMemoryIsLeft) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  const Error error(ErrorCode::out_of_memory, "cannot allocate 923 MiB", "training_step.cpp:30", "use less");
  size_t plans = 0;
  const auto planned = [&](int64_t batch_size) { return ++plans, batch_size << 20; };
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  ASSERT_GT(pages, 0U);
  {
    const Limit limit(RLIMIT_AS, pages * static_cast<uint64_t>(getpagesize()) + (32U << 20));
    EXPECT_STREQ(with_memory_advice(error, Device{}, 256, planned).what(), error.what());
  }
  EXPECT_EQ(plans, 0U);
  EXPECT_THAT(with_memory_advice(error, Device{}, 256, planned).what(), HasSubstr("planned to need 256 MiB"));
  EXPECT_EQ(plans, 2U);
}

// Free memory is what the limit leaves: for the advice, for `fit` and for the tuner's trials.
TEST_F(Limits, OfMemoryCountInWhatIsFree) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  if (!has_pictures()) GTEST_SKIP() << "Fashion-MNIST is not installed";
  constexpr uint64_t mib = 600;
  const Limit limit(RLIMIT_AS, mib << 20);
  const auto train = [&](const std::string& batch_size) {
    std::filesystem::remove_all(folder_ / "run");
    return run({"train", "--model", "cnn", "--device", "cpu", "--max-steps", "2", "--eval-examples", "64",
                "--quiet", "--out", "run", "--batch-size", batch_size});
  };
  const Outcome refused = train("16384");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("of 600 MiB are free"), HasSubstr("at most 600 MiB: raise that"),
                                 HasSubstr("ulimit -v"), HasSubstr("use --batch-size ")));
  const std::string before = "use --batch-size ";
  const size_t at = refused.err.find(before);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const int64_t fits = std::stoll(refused.err.substr(at + before.size()));
  EXPECT_GT(fits, 300) << "a step of 300 is planned to need 73 MiB";
  const Outcome outcome = train(std::to_string(fits));
  EXPECT_EQ(outcome.exit_code, 0) << fits << ": " << outcome.err;
  const nlohmann::json fitting =
      nlohmann::json::parse(run({"fit", "--model", "mlp", "--device", "cpu", "--json"}).out);
  EXPECT_LT(fitting["limit_bytes"], mib << 20);
}

#ifdef ATHANOR_OPENCL_FAULTS
// PoCL ends the program if it cannot start its threads, and LLVM removes what would report the reason.
TEST_F(Limits, OfMemoryLeaveOutDriversThatEndTheProgram) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  set_variable("ATHANOR_OPENCL_LIBRARY", ATHANOR_OPENCL_FAULTS);
  set_variable("ATHANOR_FAULT", "abort");
  const Outcome outcome = [&] {
    const Limit limit(RLIMIT_AS, uint64_t{4} << 30);
    return run({"explain", "--model", "mlp", "--deterministic", "--device", "auto"});
  }();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the devices of 'opencl' are left out"), HasSubstr("ulimit -v")));
}
#endif

// Too little memory for PoCL to load: the OpenCL library reports only that it has no driver.
TEST_F(Limits, OfMemoryAreNamedWhereNoDriverLoads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  const Outcome outcome = [&] {
    const Limit limit(RLIMIT_AS, uint64_t{250} << 20);
    return run({"detect"});
  }();
  if (outcome.out.find("has no driver to load") == std::string::npos)
    GTEST_SKIP() << "OpenCL's drivers are small";
  EXPECT_THAT(outcome.out, HasSubstr("limit of 250 MiB"));
}

TEST_F(Limits, OfFilesAreErrorsNotSignals) {
  if (!has_pictures()) GTEST_SKIP() << "Fashion-MNIST is not installed";
  const Outcome outcome = [&] {
    const Limit limit(RLIMIT_FSIZE, 8192);
    return run({"train", "--model", "mlp", "--device", "cpu", "--deterministic", "--max-steps", "2",
                "--quiet", "--out", "run"});
  }();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ulimit -f"));
  // Output that is cut off must not end the program by a signal either.
  const Outcome printed = [&] {
    const Limit limit(RLIMIT_FSIZE, 8192);
    return run_program(folder_.path(),
                       {"explain", "--model", "cnn", "--device", "cpu", "--deterministic", "--json"});
  }();
  EXPECT_LT(printed.exit_code, 128) << printed.err;
}

}  // namespace
}  // namespace athanor
