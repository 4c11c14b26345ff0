#include "athanor/base/error.h"
#include "athanor/base/threads.h"
#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

TEST(CpuBackend, DescribesItself) {
  const DeviceInfo info = info_of(parse_device("cpu"));
  EXPECT_EQ(info.kind, "cpu");
  EXPECT_NE(info.name.find("core"), std::string::npos);
  for (const char* property : {"processor", "cores", "threads", "vector instructions", "oneDNN"}) {
    ASSERT_TRUE(info.properties.contains(property)) << property;
    EXPECT_FALSE(info.properties.at(property).value.empty()) << property;
    EXPECT_FALSE(info.properties.at(property).source.empty()) << property;
  }
}

TEST(CpuBackend, AllocatesAlignedCountedMemory) {
  const Device device = parse_device("cpu");
  const uint64_t before = memory_use(device).current;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{5} << 20}) {
    auto storage = allocate(device, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(storage->address()) % 64, 0U);
    EXPECT_EQ(memory_use(device).current, before + bytes);
    std::vector<std::byte> data(bytes, std::byte{42}), back(bytes);
    storage->write(data.data(), 0, bytes);
    storage->read(back.data(), 0, bytes);
    EXPECT_EQ(data, back);
  }
  EXPECT_EQ(memory_use(device).current, before);
}

TEST(CpuBackend, SaysWhatItCouldNotAllocate) {
  try {
    allocate(parse_device("cpu"), size_t{1} << 60);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("GiB"), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(CpuBackend, KnowsItsOps) {
  const TensorType x{DType::f32, {2, 16, 8, 8}, {}}, integers{DType::i32, {2, 16, 8, 8}, {}};
  for (const char* name :
       {"batch_matmul", "pad", "concat", "fold", "take_along", "scatter_add", "cumsum", "argsort", "reorder"})
    EXPECT_TRUE(cpu().has_kernel(make_op(name), std::vector{x}, x, {})) << name;
  for (const char* name : {"max_pool2d", "max_pool2d_grad", "avg_pool2d", "avg_pool2d_grad"}) {
    EXPECT_TRUE(cpu().has_kernel(make_op(name), std::vector{x}, x, {})) << name;
    EXPECT_FALSE(cpu().has_kernel(make_op(name), std::vector{integers}, integers, {})) << name;
  }
  EXPECT_FALSE(cpu().has_kernel(make_op("conv2d"), std::vector{integers, integers}, integers, {}));
  EXPECT_FALSE(cpu().has_kernel(make_op("softmax"), std::vector{x}, x, {}));
}

TEST(CpuBackend, PrefersBlocksOnlyWhereChannelsFit) {
  const Attrs attrs = {{"groups", int64_t{1}}};
  const auto layouts = [&](int64_t channels, int64_t out, DType dtype = DType::f32) {
    return cpu().preferred_layouts(
        make_op("conv2d"),
        std::vector<TensorType>{{dtype, {2, channels, 8, 8}, {}}, {dtype, {out, channels, 3, 3}, {}}},
        {dtype, {2, out, 6, 6}, {}}, attrs);
  };
  EXPECT_TRUE(layouts(16, 16, DType::f64).empty());
  const auto both = layouts(32, 64), image = layouts(3, 64);
  if (both.empty()) GTEST_SKIP() << "this build or processor has no blocked layouts";
  ASSERT_EQ(both.size(), 3U);
  EXPECT_GT(both[0].block, 0);
  EXPECT_EQ(both[1].block, 0);
  EXPECT_EQ(both[2], both[0]);
  EXPECT_EQ(image[0].block, 0);
  EXPECT_EQ(image[2], both[0]);
}

}  // namespace
}  // namespace athanor::testing
