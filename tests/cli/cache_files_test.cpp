// Tuning records and compiled kernels as a file: one machine exports them, and another imports them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "athanor/base/sqlite.h"
#include "athanor/device/device.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/tuner.h"
#include "tests/cli/program_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/left_mark.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::AllOf;
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
  /// Makes an exported file with winners of these keys and a compiled kernel of "a card".
  void make_file(const std::vector<std::string>& keys) {
    for (const char* name : {"exported", "cache/athanor.db"}) std::filesystem::remove(folder_ / name);
    ASSERT_EQ(run({"cache", "export", file_}).exit_code, 0);  // an empty one
    sqlite3* const database = open_database(file_);
    for (const std::string& key : keys) {
      SqlStatement row(database, "INSERT INTO winners VALUES(?, x'61', 1.0, x'62', x'', 0.0, 0, x'63', 1.0)");
      ASSERT_TRUE(row.bind_bytes(key).run());
    }
    SqlStatement row(database, "INSERT INTO binaries VALUES(x'64', ?, x'65', ?, ?)");
    ASSERT_TRUE(row.bind_bytes("a card").bind_bytes("code").bind_bytes(KernelCache::hash("code")).run());
    close_database(database);
  }
  void change(const std::string& commands) const {
    sqlite3* const database = open_database(file_);
    EXPECT_TRUE(run_sql(database, commands)) << trouble_of(database).reason;
    close_database(database);
  }
  /// Of the first entry of the program's cache whose key begins so.
  double seconds_of(const std::string& start) const {
    const json all = json::parse(run({"cache", "ls", "--json"}).out);
    for (const json& one : all.at("entries"))
      if (one["kind"] == "winner" && one["key"].get<std::string>().starts_with(start)) return one["seconds"];
    return 0;
  }
  std::filesystem::path cache() const { return folder_ / "cache/athanor.db"; }
  std::string file_ = (folder_ / "exported").string();
};

TEST_F(CacheFiles, CarryWhatAMachineKnowsToAnother) {
  KernelCache& here = KernelCache::instance();
  here.store_winner(
      "a device|problem of CacheFiles",
      {"second", 2e-3, "two candidates", {{"first", 3e-3}, {"second", 2e-3}}, 0.25, 1, "alike", 7});
  for (const char* of_an_earlier_run : {"third", "this process tries it now"})
    here.unmark("a device|problem of CacheFiles", of_an_earlier_run);
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
  EXPECT_THAT(taken.out,
              HasSubstr("\n  a device: 1 tuning result, 1 mark of an unusable kernel; no device of "
                        "this machine\n"));
  EXPECT_THAT(taken.out,
              HasSubstr("\n  a device of CacheFiles: 1 compiled kernel; no device of this machine\n"));
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
  const Outcome again_taken = run({"cache", "import", file_});
  EXPECT_EQ(again_taken.exit_code, 0) << again_taken.err;
  EXPECT_THAT(again_taken.out, HasSubstr(": 0 new, 0 replaced, ")) << "a second time changes nothing";
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
  here.store_binary("large binary of CacheFiles", "another device", "a kernel", std::string(1'000'000, 'x'));
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

TEST_F(CacheFiles, SayWhatIsForThisMachine) {
  const DeviceInfo cpu = info_of({});
  make_file({environment_key(cpu) + "|first problem", environment_key(cpu) + "|second problem",
             cpu.name + "|another driver|third problem", "a card|its driver|first problem"});
  const Outcome taken = run({"cache", "import", file_});
  ASSERT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_EQ(taken.out,
            file_ + ": 4 tuning results, 1 compiled kernel\n  " + cpu.name +
                ": 3 tuning results; here cpu, 1 as first guesses (timed with another driver or number of "
                "threads)\n  a card: 1 tuning result, 1 compiled kernel; no device of this machine\n"
                "Usable here: 3 of 4 tuning results (athanor detect lists the devices)\n" +
                cache().string() + ": 5 new, 0 replaced, 0 there already\n");
  change("UPDATE winners SET seconds=7.0 WHERE instr(key, CAST('a card' AS BLOB))");
  const json again = json::parse(run({"cache", "import", file_, "--json"}).out);
  EXPECT_EQ(again["new"], 0);
  EXPECT_EQ(again["replaced"], 1);
  EXPECT_EQ(again["present"], 4);
  EXPECT_EQ(again["usable_here"], 3);
  ASSERT_EQ(again["devices"].size(), 2U);
  EXPECT_EQ(again["devices"][0]["here"], json::array({"cpu"}));
  EXPECT_EQ(again["devices"][0]["tuning_results"], 3);
  EXPECT_EQ(again["devices"][0]["ready"], 2);
  EXPECT_EQ(again["devices"][1]["here"], json::array());
  EXPECT_EQ(seconds_of("a card"), 7);
}

TEST_F(CacheFiles, LeaveOutWhatIsDamaged) {
  make_file({"a card|its driver|first problem", "a card|its driver|second problem"});
  change("UPDATE binaries SET content=x'00'; UPDATE winners SET bucket=5 WHERE instr(key, x'66697273')");
  const Outcome taken = run({"cache", "import", file_});
  ASSERT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_THAT(taken.out, HasSubstr(": 1 new, 0 replaced, 0 there already\nLeft out: 2 damaged\n"));
  const json entries = json::parse(run({"cache", "ls", "--json"}).out)["entries"];
  ASSERT_EQ(entries.size(), 1U) << entries;
  EXPECT_EQ(entries[0]["key"], "a card|its driver|second problem");
}

// Each with what is wrong, and what to do. Nothing of them is taken.
TEST_F(CacheFiles, ThatAreNotWholeAreRefused) {
  const auto refused = [&](const std::string& what) {
    const Outcome outcome = run({"cache", "import", file_});
    EXPECT_EQ(outcome.exit_code, 1) << what;
    EXPECT_EQ(outcome.out, "") << what;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr(what), HasSubstr(file_), HasSubstr("athanor cache export FILE")));
    EXPECT_EQ(json::parse(run({"cache", "ls", "--json"}).out)["entries"], json::array()) << what;
  };
  write_file_atomically(file_, "no database at all, but long enough that it might have been one: " +
                                   std::string(database_head, '.'));
  refused("no cache that Athanor exported");
  write_file_atomically(file_, "");
  refused("no cache that Athanor exported");
  std::filesystem::remove(file_);
  change("CREATE TABLE bookmarks(address TEXT)");
  refused("a database, but no cache");
  const std::vector<std::string> keys{"a card|its driver|first problem"};
  make_file(keys);
  change("PRAGMA user_version=" + std::to_string(KernelCache::schema - 1));
  refused("of an earlier version of Athanor");
  change("PRAGMA user_version=" + std::to_string(KernelCache::schema + 1));
  refused("of a later version of Athanor");
  make_file(keys);
  change("DROP TABLE parts");
  refused("a database, but no cache");
  make_file(keys);
  change("DROP INDEX alike; ALTER TABLE winners DROP COLUMN bucket");
  refused("is damaged (no such column: o.bucket)");
  make_file(keys);
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) / 2);
  refused("is damaged (");
}

// A name in a file may be any bytes. They must neither end the program after it has imported, nor reach the
// terminal.
TEST_F(CacheFiles, MayHoldAnyBytesAsNames) {
  make_file({"a \x1b[31mred card \xff\xfe|its driver|first problem"});
  const Outcome taken = run({"cache", "import", file_});
  ASSERT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_THAT(taken.out, AllOf(HasSubstr("a  [31mred card"), Not(HasSubstr("\x1b"))));
  const Outcome again = run({"cache", "import", file_, "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["present"], 2);
}

TEST_F(CacheFiles, ThatAreLockedAreNotCalledDamaged) {
  make_file({"a card|its driver|first problem"});
  sqlite3* const other = open_database(file_);
  ASSERT_TRUE(run_sql(other, "PRAGMA journal_mode=DELETE") && run_sql(other, "BEGIN EXCLUSIVE"));
  const Outcome locked = run({"cache", "import", file_});
  close_database(other);
  EXPECT_EQ(locked.exit_code, 1);
  EXPECT_THAT(locked.err, AllOf(HasSubstr("locked"), HasSubstr(file_), Not(HasSubstr("damaged"))));
}

TEST_F(CacheFiles, AreNotTakenIfTheCacheCannotBeFilled) {
  make_file({"a card|its driver|first problem"});
  ASSERT_EQ(run({"cache", "import", file_}).exit_code, 0);
  const Outcome itself = run({"cache", "import", cache().string()});
  EXPECT_THAT(itself.err, HasSubstr("this file is the cache itself"));
  EXPECT_EQ(itself.exit_code, 2);
  change("UPDATE winners SET seconds=7.0");
  sqlite3* const writer = open_database(cache());
  ASSERT_TRUE(run_sql(writer, "BEGIN IMMEDIATE"));
  const Outcome locked = run({"cache", "import", file_});
  close_database(writer);
  EXPECT_EQ(locked.exit_code, 1);
  EXPECT_EQ(locked.out, "");
  EXPECT_THAT(locked.err,
              AllOf(HasSubstr("another program has locked it"), HasSubstr("Nothing was imported")));
  EXPECT_EQ(seconds_of("a card"), 1);
  EXPECT_EQ(run({"cache", "import", "missing"}).exit_code, 1);
}

}  // namespace
}  // namespace athanor
