#include "athanor/base/line_log.h"

#include <gtest/gtest.h>

#include "athanor/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::TempFolder;

TEST(LineLog, AppendsWholeLines) {
  const TempFolder folder;
  LineLog log(folder / "log");
  log.write("one");
  EXPECT_EQ(read_text_file(folder / "log"), "one\n");
  log.write("two");
  log.sync();
  EXPECT_EQ(read_text_file(folder / "log"), "one\ntwo\n");
  EXPECT_EQ(log.size(), 8);
}

TEST(LineLog, StartsAnewByDefault) {
  const TempFolder folder;
  write_file_atomically(folder / "log", "of an older run\n");
  LineLog(folder / "log").write("x");
  EXPECT_EQ(read_text_file(folder / "log"), "x\n");
}

TEST(LineLog, ResumesWhereACheckpointWas) {
  const TempFolder folder;
  uint64_t kept = 0;
  {
    LineLog log(folder / "log");
    log.write("step 1");
    kept = log.size();
    log.write("step 2, lost with the run");
  }
  LineLog(folder / "log", kept).write("step 2");
  EXPECT_EQ(read_text_file(folder / "log"), "step 1\nstep 2\n");
}

TEST(LineLog, RefusesAPlaceThatIsNoEndOfALine) {
  const TempFolder folder;
  write_file_atomically(folder / "log", "abc\n");
  expect_error(ErrorCode::format, {"4 bytes, of which 9"}, [&] { const LineLog log(folder / "log", 9); });
  expect_error(ErrorCode::format, {"middle of a line", "byte 2"},
               [&] { const LineLog log(folder / "log", 2); });
  EXPECT_EQ(read_text_file(folder / "log"), "abc\n");
}

TEST(LineLog, ReportsAFullDiskAndAnImpossiblePath) {
  const TempFolder folder;
  write_file_atomically(folder / "file", "x");
  expect_error(ErrorCode::io, {"cannot open", "is a file"}, [&] { const LineLog log(folder / "file/log"); });
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  LineLog full("/dev/full");
  expect_error(ErrorCode::io, {"cannot append", "/dev/full", "No space left"}, [&] { full.write("x"); });
  EXPECT_EQ(full.size(), 0);
}

}  // namespace
}  // namespace athanor
