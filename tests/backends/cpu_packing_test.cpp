#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "athanor/backends/cpu/generic/gemm_pack.h"

namespace athanor::testing {
namespace {

// Numbers that bf16 holds exactly.
template <class T>
std::vector<T> counted(int64_t n) {
  std::vector<T> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(cpu::store<T>(static_cast<float>(i % 251)));
  return v;
}

// Vectors that are contiguous along their depth, and vectors that lie side by side.
template <class T>
void check_packing(int64_t count, int64_t depth, int64_t width) {
  constexpr int64_t gap = 3;
  for (const bool along : {true, false}) {
    const int64_t stride = along ? depth + gap : 1, depth_stride = along ? 1 : count + gap;
    const auto from = counted<T>((count - 1) * stride + (depth - 1) * depth_stride + 1);
    const int64_t panels = (count + width - 1) / width;
    std::vector<float> packed(static_cast<size_t>(panels * width * depth) + 1, -1);
    cpu::pack(cpu::Vectors<T>{from.data(), count, stride, depth, depth_stride}, width, packed.data());
    for (int64_t i = 0; i < panels * width; ++i)
      for (int64_t p = 0; p < depth; ++p) {
        const float want =
            i < count ? cpu::load(from[static_cast<size_t>(i * stride + p * depth_stride)]) : 0.0F;
        ASSERT_EQ(packed[static_cast<size_t>((i / width * depth + p) * width + i % width)], want)
            << "vector " << i << " of " << count << ", element " << p << " of " << depth << ", width "
            << width << (along ? ", along the depth" : ", side by side");
      }
    ASSERT_EQ(packed.back(), -1) << "wrote behind the last panel";
  }
}

TEST(CpuPacking, VectorsOfAnyNumberAndDepth) {
  for (const int64_t width : {4, 6, 8, 12, 16, 32})
    for (const int64_t count : {1, 2, 3, 4, 5, 11, 12, 17, 31, 33, 70})
      for (const int64_t depth : {1, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 45}) {
        check_packing<float>(count, depth, width);
        check_packing<bf16>(count, depth, width);
      }
}

TEST(CpuPacking, TurnsNoMatrixOfFewRowsOrColumns) {
  const auto from = counted<float>(3 * 64);
  std::vector<float> to(3 * 64, -1);
  EXPECT_FALSE(cpu::packing::turn({from.data(), 3, 64, 64}, to.data(), 3));
  EXPECT_FALSE(cpu::packing::turn({from.data(), 64, 3, 3}, to.data(), 64));
  EXPECT_EQ(to, std::vector<float>(3 * 64, -1));
}

// The elements between the rows are another's.
TEST(CpuPacking, TurnsToRowsThatAreApart) {
#if !defined(__x86_64__) && !defined(__aarch64__)
  GTEST_SKIP() << "no vectors are known for this processor";
#endif
  constexpr int64_t stride = 41;
  for (const int64_t rows : {4, 7, 37})
    for (const int64_t columns : {4, 5, 7, 8, 15, 16, 37}) {
      const auto from = counted<float>(rows * columns);
      std::vector<float> to(static_cast<size_t>(columns * stride), -1);
      ASSERT_TRUE(cpu::packing::turn({from.data(), rows, columns, columns}, to.data(), stride));
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t r = 0; r < stride; ++r)
          ASSERT_EQ(to[static_cast<size_t>(c * stride + r)],
                    r < rows ? from[static_cast<size_t>(r * columns + c)] : -1)
              << rows << " rows of " << columns << ", row " << r << ", column " << c;
    }
}

}  // namespace
}  // namespace athanor::testing
