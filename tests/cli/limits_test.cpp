// Programs that may take only so much: the end is a message, whatever was in the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/cli/program.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using ::testing::StartsWith;
using testing::TempFolder;

bool has_pictures() {
  return std::filesystem::exists("/usr/share/datasets/fashion-mnist") ||
         std::getenv("ATHANOR_DATA") != nullptr;
}

/// Of this process and its children, while it lives.
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

TEST(Limits, OfMemoryAreNamedWhenTheyAreReached) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  if (!has_pictures()) GTEST_SKIP() << "Fashion-MNIST is not installed";
  const TempFolder folder;
  size_t failed = 0;
  for (const uint64_t mib : {64, 72, 80, 90, 100, 130, 160}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"explain", "--model", "cnn", "--device", "cpu", "--deterministic"},
          {"train", "--model", "mlp", "--device", "cpu", "--deterministic", "--max-steps", "1", "--quiet",
           "--out", "run" + std::to_string(mib)}}) {
      const Outcome outcome = [&] {
        const Limit limit(RLIMIT_AS, mib << 20);
        return run_program(folder.path(), words);
      }();
      if (outcome.exit_code == 0) continue;
      ++failed;
      // What cannot even be loaded is the system's to tell, threads of OpenMP's are that library's.
      EXPECT_THAT(outcome.err,
                  AnyOf(HasSubstr("ulimit -v"), HasSubstr("error while loading shared libraries"),
                        StartsWith("\nlibgomp: Thread creation failed")))
          << mib << " MiB, exit code " << outcome.exit_code;
    }
  }
  EXPECT_GT(failed, 3U);
}

TEST(Limits, OfFilesAreErrorsNotSignals) {
  if (!has_pictures()) GTEST_SKIP() << "Fashion-MNIST is not installed";
  const TempFolder folder;
  const Outcome outcome = [&] {
    const Limit limit(RLIMIT_FSIZE, 8192);
    return run_program(folder.path(), {"train", "--model", "mlp", "--device", "cpu", "--deterministic",
                                       "--max-steps", "2", "--quiet", "--out", "run"});
  }();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ulimit -f"));
  // Output that is cut is no death either.
  const Outcome printed = [&] {
    const Limit limit(RLIMIT_FSIZE, 8192);
    return run_program(folder.path(),
                       {"explain", "--model", "cnn", "--device", "cpu", "--deterministic", "--json"});
  }();
  EXPECT_LT(printed.exit_code, 128) << printed.err;
}

}  // namespace
}  // namespace athanor
