#include "athanor/base/os/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace athanor::os {
namespace {

using ::testing::HasSubstr;

TEST(Child, HandsItsAnswerBack) {
  EXPECT_EQ(Child([] { return std::string(3'000'000, 'x'); }).wait(20).text.size(), 3'000'000U);
  const auto answer = Child([] { return std::string("a\0b", 3); }).wait(20);
  EXPECT_EQ(answer.text, std::string("a\0b", 3));
  EXPECT_EQ(answer.problem, "");
}

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

}  // namespace
}  // namespace athanor::os
