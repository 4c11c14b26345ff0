// Helpers for tests of the CPU's fused loops: each program runs on a kernel and on a plain interpreter.
#pragma once
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "athanor/backends/cpu/loops/loop_kernel.h"
#include "athanor/backends/cpu/loops/steps.h"
#include "tests/backends/loop_programs.h"

namespace athanor::testing {

constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr DType loop_types[] = {DType::f64, DType::f32, DType::i64, DType::i32,
                                       DType::i8,  DType::u8,  DType::b8};

/// Runs a program on the kernel and the reference, on copies of one memory.
inline void check(const LoopProgram& p, const Memory& start, double tolerance, int threads = 2) {
  Memory got = start, want = start;
  LoopKernel(p).run(got.addresses(), threads);
  const auto addresses = want.addresses();
  reference::Interpreter(p, addresses).run();
  expect_close(p, got, want, tolerance, LoopKernel(p).description());
}
inline void check(const LoopProgram& p, double tolerance = 1e-5, unsigned seed = 1) {
  std::mt19937 rng(seed);
  check(p, memory_for(p, rng), tolerance);
}

inline constexpr const char* isas[] = {"", "avx2", "scalar"};

/// Each test runs on every instruction set.
class LoopOnIsa : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { loops::limit_isa(GetParam()); }
  void TearDown() override { loops::limit_isa(""); }
};
inline std::string isa_name(const ::testing::TestParamInfo<const char*>& i) {
  return *i.param == 0 ? "best" : i.param;
}

}  // namespace athanor::testing
