// How processes share compiled kernels.
#include "athanor/kernels/cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "athanor/base/os/system.h"
#include "athanor/base/sqlite.h"
#include "tests/support/left_mark.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

/// Sets $XDG_CACHE_HOME for the duration of a test.
class CacheHome {
 public:
  explicit CacheHome(const std::string& folder) {
    if (const char* value = std::getenv("XDG_CACHE_HOME")) before_ = value;
    setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  }
  ~CacheHome() {
    if (before_)
      setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    else
      unsetenv("XDG_CACHE_HOME");
  }
  CacheHome(const CacheHome&) = delete;
  CacheHome& operator=(const CacheHome&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(KernelCache, GivesTurnsToCompileAKernel) {
  const testing::TempFolder folder;
  const CacheHome home(folder.path().string());
  auto first = KernelCache::turn_to_compile("a");
  ASSERT_TRUE(first);
  EXPECT_TRUE(KernelCache::turn_to_compile("b")) << "another kernel waits for nobody";
  std::atomic<bool> waited = false;
  std::thread other([&] { waited = KernelCache::turn_to_compile("a").has_value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(waited);
  first.reset();
  other.join();
  EXPECT_TRUE(waited);
}

// One process examines a device and waits for others, which try its units. Files are shared by many keys, so
// that any two may meet: here they do.
TEST(KernelCache, TryingAUnitDoesNotWaitForItsDevicesExamination) {
  KernelCache& cache = KernelCache::instance();
  auto device = cache.turn_to_examine("a");
  if (!device) GTEST_SKIP() << "nothing is remembered here";
  std::atomic<bool> tried = false;
  std::thread unit([&] { tried = cache.turn_to_try("a").has_value(); });
  for (int i = 0; i < 100 && !tried; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(tried);
  device.reset();
  unit.join();
}

TEST(KernelCache, GoesOnWithoutTurnsWhereNothingCanBeWritten) {
  const testing::TempFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const CacheHome home((folder / "file").string());
  EXPECT_FALSE(KernelCache::turn_to_compile("a"));
}

TEST(KernelCache, ListsHowFarTimesVaried) {
  KernelCache& cache = KernelCache::instance();
  cache.store_winner("a problem", {.name = "a kernel", .seconds = 1e-3, .spread = 0.25, .disturbed = 1});
  if (!cache.find_winner("a problem")) GTEST_SKIP() << "nothing is remembered here";
  const auto all = cache.entries();
  const auto found = std::ranges::find(all, "a problem", &KernelCache::Entry::key);
  ASSERT_NE(found, all.end());
  EXPECT_EQ(found->spread, 0.25);
  EXPECT_TRUE(found->disturbed);
}

TEST(KernelCache, CompilesAnewWhatIsDamaged) {
  KernelCache& cache = KernelCache::instance();
  const std::string key = KernelCache::binary_key("a device of KernelCache", "a source"),
                    binary("\0 kernel", 8);
  cache.store_binary(key, "a device of KernelCache", "a kernel", binary);
  if (cache.find_binary(key).empty()) GTEST_SKIP() << "nothing is remembered here";
  EXPECT_EQ(cache.find_binary(key), binary);
  sqlite3* const file = open_database(cache.file());
  ASSERT_TRUE(SqlStatement(file, "UPDATE binaries SET content=X'01' || substr(content, 2) WHERE key=?")
                  .bind_bytes(key)
                  .run());
  close_database(file);
  EXPECT_EQ(cache.find_binary(key), "") << "a flipped bit is no kernel";
  cache.store_binary(key, "a device of KernelCache", "a kernel", binary);
  EXPECT_EQ(cache.find_binary(key), binary);
}

/// A process that does nothing until it is killed.
class OtherProcess {
 public:
  OtherProcess() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    number_ = fork();
    if (number_ == 0) {
      const std::string own = os::process_identity();
      for (static_cast<void>(write(ends[1], own.data(), own.size())), close(ends[1]);;) pause();
    }
    close(ends[1]);
    std::array<char, 256> own{};
    for (ssize_t count = 0; (count = read(ends[0], own.data(), own.size())) > 0;)
      identity_.append(own.data(), static_cast<size_t>(count));
    close(ends[0]);
  }
  ~OtherProcess() { end(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const std::string& identity() const { return identity_; }
  void kill_only() const { kill(number_, SIGKILL); }
  void end() {
    if (number_ <= 0) return;
    kill_only();
    waitpid(std::exchange(number_, 0), nullptr, 0);
  }

 private:
  pid_t number_ = 0;
  std::string identity_;
};

TEST(KernelCache, DoesNotTakeTheMarkOfARunningProcessForOneThatWasLeft) {
  KernelCache& cache = KernelCache::instance();
  if (!cache.why_unused().empty()) GTEST_SKIP() << "nothing is remembered here";
  const std::string key = "a problem of two processes";
  OtherProcess other;
  ASSERT_FALSE(other.identity().empty());
  testing::leave_mark(key, "kernel", other.identity());
  EXPECT_FALSE(cache.is_marked(key, "kernel"));
  cache.mark(key, "kernel");
  EXPECT_FALSE(cache.is_marked(key, "kernel")) << "this process tries it now";
  cache.unmark(key, "kernel");
  other.end();
  EXPECT_TRUE(cache.is_marked(key, "kernel")) << "unmark() has left the other's";
  cache.unmark(key, "kernel");
  EXPECT_FALSE(cache.is_marked(key, "kernel"));
}

TEST(ProcessIdentity, TellsProcessesApart) {
  const std::string own = os::process_identity();
  EXPECT_TRUE(os::is_running(own));
  EXPECT_EQ(os::process_identity(), own);
  OtherProcess other;
  EXPECT_NE(other.identity(), own);
  EXPECT_TRUE(os::is_running(other.identity()));
  EXPECT_FALSE(os::is_running(own + "1")) << "the number was given to a later process";
  other.kill_only();
  for (int i = 0; i < 2000 && os::is_running(other.identity()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(os::is_running(other.identity())) << "it has ended, though its parent has not waited for it";
  for (const char* wrong : {"", "a", "a b ../1 2", "a b 1", "a b -1 2"})
    EXPECT_FALSE(os::is_running(wrong)) << wrong;
}

}  // namespace
}  // namespace athanor
