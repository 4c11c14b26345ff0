// Tuning records and compiled kernels as a file: one machine exports them, and another imports them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "athanor/base/sqlite.h"
#include "athanor/kernels/cache.h"
#include "tests/cli/program_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/left_mark.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;

class CacheFiles : public testing::ProgramTest {
 protected:
  /// The entries that this test makes, as `cache ls` of the program shows them.
  json ours() const {
    const json all = json::parse(run({"cache", "ls", "--json"}).out);
    json found = json::array();
    for (const json& one : all.at("entries"))
      if (one["key"].get<std::string>().find("of CacheFiles") != std::string::npos) found.push_back(one);
    return found;
  }
  std::string file_ = (folder_ / "exported").string();
};

TEST_F(CacheFiles, CarryWhatAMachineKnowsToAnother) {
  KernelCache& here = KernelCache::instance();
  here.store_winner(
      "a device|problem of CacheFiles",
      {"second", 2e-3, "two candidates", {{"first", 3e-3}, {"second", 2e-3}}, 0.25, 1, "alike", 7});
  testing::leave_mark("a device|problem of CacheFiles", "third");
  here.mark("a device|problem of CacheFiles", "this process tries it now");
  here.store_binary("binary of CacheFiles", "a device of CacheFiles", "a kernel", std::string("\0code", 5));
  here.store_part("part of CacheFiles", {"binary of CacheFiles", "a kernel_0"});
  EXPECT_TRUE(here.has_binary("binary of CacheFiles"));
  EXPECT_TRUE(here.has_binary("part of CacheFiles"));
  EXPECT_FALSE(here.has_binary("another kernel of CacheFiles"));
  if (!here.find_winner("a device|problem of CacheFiles")) GTEST_SKIP() << "nothing is remembered here";
  here.export_to(file_);

  EXPECT_EQ(ours(), json::array());  // the program has its own cache
  const Outcome taken = run({"cache", "import", file_});
  ASSERT_EQ(taken.exit_code, 0) << taken.err;
  const json there = ours();
  ASSERT_EQ(there.size(), 3U) << there.dump(1);
  EXPECT_EQ(there[0]["kind"], "winner");
  EXPECT_EQ(there[0]["value"], "second");
  EXPECT_EQ(there[0]["seconds"], 2e-3);
  EXPECT_EQ(there[0]["provisional"], true);
  EXPECT_EQ(there[0]["spread"], 0.25);
  EXPECT_EQ(there[1]["kind"], "marked");
  EXPECT_EQ(there[1]["value"], "third");
  EXPECT_EQ(there[2]["kind"], "binary");
  EXPECT_EQ(there[2]["bytes"], 5);
  // The text names each device once, above its records.
  EXPECT_THAT(
      run({"cache", "ls"}).out,
      HasSubstr("a device\n  problem of CacheFiles\n      second  2.0 ms, spread 25 %  (the machine was "
                "busy: provisional)\n  problem of CacheFiles\n      never to be tried again: third\n"));
  EXPECT_EQ(run({"cache", "import", file_}).exit_code, 0) << "a second time changes nothing";
  EXPECT_EQ(ours(), there);

  // The imported records can be exported again.
  const std::string again = (folder_ / "again").string();
  ASSERT_EQ(run({"cache", "export", again}).exit_code, 0);
  EXPECT_THAT(run({"cache", "export", again}).err, HasSubstr("there already"));
  sqlite3* const copy = open_database(again);
  {
    SqlStatement part(copy, "SELECT name FROM parts WHERE key=?");
    ASSERT_TRUE(part.bind_bytes("part of CacheFiles").step());
    EXPECT_EQ(part.text(0), "a kernel_0");
  }
  close_database(copy);
  ASSERT_EQ(run({"cache", "clear"}).exit_code, 0);
  EXPECT_EQ(ours(), json::array());
  ASSERT_EQ(run({"cache", "import", again}).exit_code, 0);
  EXPECT_EQ(ours(), there);
}

TEST_F(CacheFiles, ThatCannotBeWrittenWholeAreNotLeftInPart) {
  KernelCache& here = KernelCache::instance();
  here.store_binary("large binary of CacheFiles", "a device", "a kernel", std::string(1'000'000, 'x'));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit lower{300'000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &lower);
  testing::expect_error(ErrorCode::io, {"cannot write the file", file_}, [&] { here.export_to(file_); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_FALSE(std::filesystem::exists(file_ + ".tmp"));
  const Outcome missing = run({"cache", "export", "no/such/folder"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("does not exist"));
}

TEST_F(CacheFiles, ThatAreNoneChangeNothing) {
  write_file_atomically(file_, "no database at all, but long enough that it might have been one");
  const Outcome none = run({"cache", "import", file_});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("no cache that this version of Athanor exported"));
  EXPECT_EQ(run({"cache", "import", "missing"}).exit_code, 1);
  EXPECT_EQ(json::parse(run({"cache", "ls", "--json"}).out)["entries"], json::array());
}

}  // namespace
}  // namespace athanor
