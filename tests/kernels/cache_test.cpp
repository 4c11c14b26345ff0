// How processes share compiled kernels.
#include "athanor/kernels/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "athanor/base/sqlite.h"
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
  const std::string key = KernelCache::binary_key("a device", "a source"), binary("\0 kernel", 8);
  cache.store_binary(key, "a device", "a kernel", binary);
  if (cache.find_binary(key).empty()) GTEST_SKIP() << "nothing is remembered here";
  EXPECT_EQ(cache.find_binary(key), binary);
  sqlite3* const file = open_database(cache.file());
  ASSERT_TRUE(SqlStatement(file, "UPDATE binaries SET content=X'01' || substr(content, 2) WHERE key=?")
                  .bind_bytes(key)
                  .run());
  close_database(file);
  EXPECT_EQ(cache.find_binary(key), "") << "a flipped bit is no kernel";
  cache.store_binary(key, "a device", "a kernel", binary);
  EXPECT_EQ(cache.find_binary(key), binary);
}

}  // namespace
}  // namespace athanor
