#include "athanor/base/os/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

#include "athanor/base/os/interrupt.h"
#include "tests/support/crowded_core.h"

namespace athanor::os {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Child, HandsItsAnswerBack) {
  EXPECT_EQ(Child([] { return std::string(3'000'000, 'x'); }).wait(20).text.size(), 3'000'000U);
  const auto answer = Child([] { return std::string("a\0b", 3); }).wait(20);
  EXPECT_EQ(answer.text, std::string("a\0b", 3));
  EXPECT_EQ(answer.problem, "");
}

TEST(Child, MayBeAnotherProgram) {
  const auto run = [](const char* script, std::vector<std::string>& said) {
    return Child::of_program({"/bin/sh", "-c", script}).wait(20, [&](const std::string& line) {
      said.push_back(line);
    });
  };
  std::vector<std::string> said;
  EXPECT_EQ(run("echo one; sleep 0.1; echo two", said).problem, "");
  EXPECT_THAT(said, ElementsAre("one", "two"));
  EXPECT_EQ(run("echo three; echo last words >&2; kill -9 $$", said).problem,
            "was ended by SIGKILL: last words");
  EXPECT_THAT(said, ElementsAre("one", "two", "three"));
  EXPECT_THAT(run("exit 3", said).problem, HasSubstr("gave no answer"));
  EXPECT_THAT(Child::of_program({"/no/such/program"}).wait(20).problem, HasSubstr("gave no answer"));
  EXPECT_TRUE(Child::of_program({"/bin/sleep", "20"}).wait(0.1).late);
  EXPECT_THAT(own_program(), HasSubstr("test_base"));
}

#ifdef __linux__
TEST(Child, IsNotLateBecauseOthersHaveTheCore) {
  const testing::CrowdedCore crowded;
  Child busy([] {
    const std::clock_t begin = std::clock();
    while (std::clock() - begin < CLOCKS_PER_SEC / 5) continue;
    return std::string("done");
  });
  EXPECT_EQ(busy.wait(0.5).text, "done") << "0.2 s of work, for which it needs about 1.4 s";
}
#endif

TEST(Child, MayDie) {
  const auto answer = Child([]() -> std::string {
                        std::fputs("first\nno /sys here\n", stderr);
                        std::abort();
                      }).wait(20);
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.problem, "was ended by SIGABRT: no /sys here");
  EXPECT_EQ(Child([]() -> std::string { throw std::runtime_error("odd"); }).wait(20).problem,
            "gave no answer: odd");
  EXPECT_THAT(Child([]() -> std::string { _exit(3); }).wait(20).problem, HasSubstr("gave no answer"));
}

TEST(Child, MayHang) {
  const auto start = std::chrono::steady_clock::now();
  const auto answer = Child([] {
                        for (;;) pause();
                        return std::string();
                      }).wait(0.2);
  EXPECT_THAT(answer.problem, HasSubstr("gave no answer within"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Child, IsNotWaitedForWithoutNeed) {
  const auto start = std::chrono::steady_clock::now();
  {
    Child child([] {
      sleep(60);
      return std::string();
    });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Child, IsLeftWhenSomebodyAsksToStop) {
  const InterruptScope held;
  pid_t process = 0;
  EXPECT_THROW(Child::of_program({"/bin/sh", "-c", "echo $$; exec sleep 60"})
                   .wait(60,
                         [&](const std::string& line) {
                           process = static_cast<pid_t>(std::stoi(line));
                           std::raise(SIGTERM);
                         }),
               Interrupted);
  EXPECT_EQ(kill(process, 0), -1) << "the child goes on";
  EXPECT_EQ(Child([] { return std::string("asked to stop before"); }).wait(0).text, "");
}

TEST(Child, SaysHowFarItIs) {
  std::vector<std::string> heard;
  const auto answer = Child([](const Say& say) {
                        say("one");
                        say("");
                        say("three");
                        return std::string("end");
                      }).wait(20, [&](const std::string& line) { heard.push_back(line); });
  EXPECT_EQ(answer.text, "end");
  EXPECT_THAT(heard, ElementsAre("one", "", "three"));
}

// The time limit counts from the child's last message.
TEST(Child, MayTakeLongAsLongAsItSpeaks) {
  const auto answer = Child([](const Say& say) {
                        for (int i = 0; i < 8; ++i) {
                          usleep(250'000);
                          say("on my way");
                        }
                        return std::string("there");
                      }).wait(1.5);
  EXPECT_EQ(answer.text, "there") << answer.problem;
  const auto silent = Child([](const Say& say) {
                        say("once");
                        for (;;) pause();
                        return std::string();
                      }).wait(0.2);
  EXPECT_THAT(silent.problem, HasSubstr("said nothing for"));
  EXPECT_TRUE(silent.late);
}

// A program that is killed cannot end its children, but they must not go on.
TEST(Child, EndsWithItsParent) {
  std::array<int, 2> alive{};
  ASSERT_EQ(pipe(alive.data()), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    Child child([] {
      for (;;) pause();
      return std::string();
    });
    usleep(200'000);
    std::raise(SIGKILL);
  }
  close(alive[1]);
  waitpid(parent, nullptr, 0);
  pollfd end{alive[0], POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 10'000), 1);  // no process holds the other end any more
  close(alive[0]);
}

}  // namespace
}  // namespace athanor::os
