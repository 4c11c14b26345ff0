#include "athanor/base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "athanor/base/os/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::TempFolder;

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Limits the size of files to `bytes` while it exists.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(File, ReadsBackWhatWasWritten) {
  const TempFolder folder;
  const std::string text("one\0two\n", 8);
  write_file_atomically(folder / "f", text);
  EXPECT_EQ(read_text_file(folder / "f"), text);
  EXPECT_EQ(read_file(folder / "f").size(), 8);
  write_file_atomically(folder / "f", {bytes_of("a"), bytes_of(""), bytes_of("bc")});
  EXPECT_EQ(read_text_file(folder / "f"), "abc");
  write_file_atomically(folder / "f", "");
  EXPECT_EQ(read_text_file(folder / "f"), "");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(File, ReadsFilesWithoutAKnownSize) { EXPECT_FALSE(read_text_file("/proc/self/status").empty()); }

TEST(File, WhatMayNeverEndIsNotRead) {
  const TempFolder folder;
  expect_error(ErrorCode::io, {"/dev/zero", "it is a device"}, [] { read_file("/dev/zero"); });
  expect_error(ErrorCode::io, {"This is a folder", folder.path().string()},
               [&] { read_file(folder.path()); });
  write_file_atomically(folder / "f", "12345");
  EXPECT_EQ(read_text_file(folder / "f", 5), "12345");
  expect_error(ErrorCode::value, {"longer than 4 B", (folder / "f").string()},
               [&] { read_text_file(folder / "f", 4); });
  fs::resize_file(folder / "f", uintmax_t{1} << 42);  // a sparse file: it takes no space on the disk
  expect_error(ErrorCode::out_of_memory, {"memory", (folder / "f").string()},
               [&] { read_file(folder / "f"); });
}

TEST(File, PipesAreReadUpToTheLimit) {
  const TempFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto write = [&](size_t bytes) {
    return std::thread([&, bytes] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      try {
        write_file_atomically(pipe, std::string(bytes, 'x'));
      } catch (const Error&) {  // the reader has closed the pipe
      }
    });
  };
  std::thread writer = write(100'000);
  EXPECT_EQ(read_file(pipe).size(), 100'000U);
  writer.join();
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  writer = write(10'000'000);
  expect_error(ErrorCode::value, {"longer than 1000 B"}, [&] { read_file(pipe, 1000); });
  writer.join();
  std::signal(SIGPIPE, before);
}

TEST(File, MissingFilesAndFoldersAreNamed) {
  const TempFolder folder;
  expect_error(ErrorCode::io, {"cannot read", "missing", "Check the name"},
               [&] { read_file(folder / "missing"); });
  expect_error(ErrorCode::io, {"cannot write", "no/f", "does not exist"},
               [&] { write_file_atomically(folder / "no/f", "x"); });
  expect_error(ErrorCode::io, {"cannot read", "This is a folder"}, [&] { read_file(folder.path()); });
  expect_error(ErrorCode::io, {"cannot write", "This is a folder"},
               [&] { write_file_atomically(folder.path(), "x"); });
}

TEST(File, AFileIsNoFolder) {
  const TempFolder folder;
  write_file_atomically(folder / "file", "x");
  expect_error(ErrorCode::io, {"cannot write", "should be a folder is a file"},
               [&] { write_file_atomically(folder / "file/inside", "y"); });
}

TEST(File, FullDiskSaysWhatIsNeededAndFree) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  expect_error(ErrorCode::io, {"/dev/full", "No space left", "5 B needed", "free in '/dev'"},
               [] { write_file_atomically("/dev/full", "hello"); });
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(File, AFailedWriteLeavesTheOldFileAndNoOther) {
  const TempFolder folder;
  write_file_atomically(folder / "f", "old");
  const std::string large(100000, 'x');
  {
    const FileSizeLimit limit(4096);
    expect_error(ErrorCode::io, {"cannot write", "97.7 KiB needed", "ulimit -f"},
                 [&] { write_file_atomically(folder / "f", large); });
  }
  EXPECT_EQ(read_text_file(folder / "f"), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(File, FollowsSymbolicLinks) {
  const TempFolder folder;
  fs::create_directory(folder / "real");
  fs::create_symlink("real/f", folder / "link");
  write_file_atomically(folder / "link", "1");
  write_file_atomically(folder / "link", "2");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text_file(folder / "real/f"), "2");
}

TEST(File, WritersOfOnePathDoNotMix) {
  const TempFolder folder;
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c)
    writers.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) write_file_atomically(folder / "f", std::string(50000, c));
    });
  for (auto& writer : writers) writer.join();
  const std::string content = read_text_file(folder / "f");
  EXPECT_EQ(content, std::string(50000, content[0]));
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(File, AKilledWriterLeavesTheOldContentOrTheNew) {
  const TempFolder folder;
  write_file_atomically(folder / "f", "old");
  for (int delay_ms : {3, 7, 11, 19}) {
    const pid_t child = fork();
    if (child == 0) {
      for (char c = 'a';; c = c == 'z' ? 'a' : static_cast<char>(c + 1))
        write_file_atomically(folder / "f", std::string(1 << 20, c));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string content = read_text_file(folder / "f");
    EXPECT_TRUE(content == "old" || content == std::string(1 << 20, content[0]));
  }
  write_file_atomically(folder / "f", "after");  // replaces what the killed writer left
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(File, KnowsFoldersThatAnotherUserMadeWhereAnyoneMay) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make what another user has made";
  const TempFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::create_directories(folder / "mine/inner");
  std::filesystem::create_directories(folder / "theirs/inner");
  std::filesystem::create_symlink(folder / "mine", folder / "link");
  constexpr uid_t other = 65534;
  ASSERT_EQ(chown((folder / "theirs").c_str(), other, other), 0);
  ASSERT_EQ(lchown((folder / "link").c_str(), other, other), 0);
  EXPECT_TRUE(os::made_by_us(folder / "mine"));
  EXPECT_TRUE(os::made_by_us(folder / "mine/inner"));
  EXPECT_TRUE(os::made_by_us(folder / "missing"));
  for (const char* theirs : {"theirs", "theirs/inner", "link"})
    EXPECT_FALSE(os::made_by_us(folder / theirs)) << theirs;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(os::made_by_us(folder / "theirs")) << "where only we make folders, we gave it away";
}

TEST(Lock, IsHeldByOneAtATimeAndEndsWithItsHolder) {
  const TempFolder folder;
  {
    const auto first = os::Lock::take(folder / "lock");
    EXPECT_TRUE(first.has_value());
    EXPECT_FALSE(os::Lock::take(folder / "lock").has_value());
  }
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = os::Lock::take(folder / "lock");
    const char byte = held ? 1 : 0;
    if (write(ready[1], &byte, 1) == 1) pause();
    _exit(1);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 1);
  EXPECT_FALSE(os::Lock::take(folder / "lock").has_value());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]), close(ready[1]);
  EXPECT_TRUE(os::Lock::take(folder / "lock").has_value());
}

}  // namespace
}  // namespace athanor
