// A compiler in other processes: this test program, started to run one of its tests, which is disabled.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "athanor/base/os/child.h"
#include "athanor/kernels/compile_apart.h"

namespace athanor::testing {

/// `serves`: the disabled test ("Suite.DISABLED_Name") that calls serve_compiler().
class CompilerProgramTest : public ::testing::Test {
 protected:
  explicit CompilerProgramTest(std::string serves) : serves_(std::move(serves)) {}
  void SetUp() override {
    if (os::own_program().empty()) GTEST_SKIP() << "the path of this program cannot be told";
    set_compiler_program({os::own_program(), "--gtest_also_run_disabled_tests", "--gtest_filter=" + serves_});
  }
  ~CompilerProgramTest() override { set_compiler_program({}); }

 private:
  std::string serves_;
};

}  // namespace athanor::testing
