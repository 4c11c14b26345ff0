// Fused loops are compared with the host's results: a kernel that computes something else is named, whatever
// its error is.
#include "athanor/kernels/check_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backends/loop_programs.h"

namespace athanor::testing {
namespace {

using ::testing::HasSubstr;

// out[i] = a[i] OP b[i]
LoopProgram map_loop(Prim prim, int64_t n) {
  Builder b({n});
  const int x = b.load(0, DType::f32, {1}), y = b.load(1, DType::f32, {1});
  b.store(b.op(prim, DType::f32, x, y), 2, DType::f32, {1});
  return b.p;
}

// out[row] = REDUCE of x[row][...]
LoopProgram row_loop(Prim prim, int64_t rows, int64_t columns) {
  Builder b({rows, columns}, {false, true});
  const int x = b.load(0, DType::f32, {columns, 1});
  b.store(b.reduce(prim, x, DType::f32), 1, DType::f32, {1, 0});
  return b.p;
}

Candidate host_kernel(const LoopProgram& loop) { return backend_of(Device{}).loop_kernel(0, loop); }

TEST(CheckLoop, AgreesWithWhatIsRight) {
  for (const LoopProgram& loop :
       {map_loop(Prim::add, 1000), map_loop(Prim::div, 7), row_loop(Prim::sum, 5, 3000),
        row_loop(Prim::reduce_max, 300, 3), row_loop(Prim::sum, 4, 0)})
    EXPECT_EQ(loop_mismatch(Device{}, {loop}, host_kernel(loop)), "") << to_string(loop);
}

TEST(CheckLoop, NamesTheElementThatIsWrong) {
  EXPECT_THAT(loop_mismatch(Device{}, {map_loop(Prim::add, 1000)}, host_kernel(map_loop(Prim::sub, 1000))),
              HasSubstr("buffer 2: element 0 of 1000 is "));
  // One wrong element among many.
  const LoopProgram loop = map_loop(Prim::add, 999);
  EXPECT_THAT(loop_mismatch(Device{}, {loop}, host_kernel(map_loop(Prim::add, 998))),
              HasSubstr("element 998 of 999"));
  EXPECT_THAT(
      loop_mismatch(Device{}, {row_loop(Prim::sum, 5, 300)}, host_kernel(row_loop(Prim::reduce_max, 5, 300))),
      HasSubstr("buffer 1: element 0 of 5"));
}

// The host computes only parts of these loops.
TEST(CheckLoop, SeesErrorsAtBothEndsOfLongLoops) {
  constexpr int64_t n = 2'000'003;
  EXPECT_EQ(loop_mismatch(Device{}, {map_loop(Prim::mul, n)}, host_kernel(map_loop(Prim::mul, n))), "");
  EXPECT_THAT(loop_mismatch(Device{}, {map_loop(Prim::mul, n)}, host_kernel(map_loop(Prim::mul, n / 2))),
              HasSubstr(" of 2000003 is "));
  EXPECT_THAT(loop_mismatch(Device{}, {map_loop(Prim::mul, n)}, host_kernel(map_loop(Prim::mul, n - 60))),
              HasSubstr("element 1999943 of 2000003"));
  const LoopProgram rows = row_loop(Prim::sum, 3000, 700);
  EXPECT_EQ(loop_mismatch(Device{}, {rows}, host_kernel(rows)), "");
  EXPECT_THAT(loop_mismatch(Device{}, {rows}, host_kernel(row_loop(Prim::sum, 2999, 700))),
              HasSubstr("element 2999 of 3000"));
  EXPECT_EQ(loop_mismatch(Device{}, {row_loop(Prim::sum, 1, n)}, host_kernel(row_loop(Prim::sum, 1, n))), "")
      << "which has one result";
}

// columns[c] = sum of x[row][c] * row, in one loop. Its parts must use the loop's own row and column numbers.
TEST(CheckLoop, PartsKnowTheirIndices) {
  constexpr int64_t rows = 900, columns = 1500;
  Builder b({rows, columns}, {true, false});
  const int x = b.load(0, DType::f32, {columns, 1});
  const int index = b.index({1, 2});
  b.store(
      b.reduce(Prim::sum, b.op(Prim::mul, DType::f32, x, b.op(Prim::cast, DType::f32, index)), DType::f32), 1,
      DType::f32, {0, 1});
  EXPECT_EQ(loop_mismatch(Device{}, {b.p}, host_kernel(b.p)), "");
}

TEST(CheckLoop, ComparesEveryDeviceHere) {
  for (const DeviceInfo& info : list_devices())
    for (const LoopProgram& loop : {map_loop(Prim::mul, 500), row_loop(Prim::sum, 3, 1000)})
      EXPECT_EQ(
          loop_mismatch(info.device, {loop}, backend_of(info.device).loop_kernel(info.device.index, loop)),
          "")
          << to_string(info.device);
}

}  // namespace
}  // namespace athanor::testing
