// Convolutions by the tile engine: every such candidate, in all three directions, for shapes that are not
// multiples of tiles, vectors and runs of pixels.
#include <algorithm>
#include <set>

#include "athanor/kernels/host_result.h"
#include "athanor/ops/conv_problem.h"
#include "gpu_kernels.h"
#include "tests/support/normalising_loop.h"

namespace athanor::testing {
namespace {

struct TiledCase {
  Shape x, w;
  Conv2dOptions options = {};
  int groups = 1;  // the device's number of compute units for this test; if it is large, K is split
};

// Kernels on devices are compared with the host's, which have their channels first.
TEST(HostResult, MayHaveChannelsLast) {
  const TiledCase c{{2, 12, 5, 6}, {10, 12, 3, 3}, {.padding = 1}};
  const Shape y{2, 10, 5, 6};
  for (const bool finishes : {false, true}) {
    std::vector<TestOperand> inputs = {view(DType::f32, c.x, 1), view(DType::f32, c.w, 2)};
    if (finishes) inputs.push_back(view(DType::f32, {c.w[0]}, 3));
    const Epilogue epilogue = finishes ? Epilogue{.bias = true, .activation = "relu"} : Epilogue{};
    const KernelRequest first = request_of(find_op("conv2d"), conv_attrs(c.options), inputs, DType::f32, y,
                                           {}, epilogue),
                        last = with_channels_last(first);
    const std::vector<double> want = to_doubles(host_result(first).at(0)),
                              got = to_doubles(host_result(last).at(0));
    ASSERT_EQ(want.size(), got.size());
    for (int64_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(want[static_cast<size_t>(i)], got[static_cast<size_t>(offset_of(last.output(), i))]) << i;
  }
}

TEST(HostResult, MovesToChannelsLast) {
  const TestOperand x = view(DType::f32, {2, 5, 3, 4}, 1), other = view(DType::f32, {2, 7, 3, 4}, 2);
  const Attrs around = {{"low", Ints{0, 1, 2, -1}}, {"high", Ints{0, 2, 0, 1}}, {"value", 0.5}};
  for (const KernelRequest& first :
       {request_of(find_op("concat"), {{"axis", int64_t{1}}}, {x, other}, DType::f32, {2, 12, 3, 4}, {}, {}),
        request_of(find_op("pad"), around, {x}, DType::f32, {2, 8, 5, 4}, {}, {})}) {
    const KernelRequest last = with_channels_last(first);
    const std::vector<double> want = to_doubles(host_result(first).at(0)),
                              got = to_doubles(host_result(last).at(0));
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(want[i], got[static_cast<size_t>(offset_of(last.output(), static_cast<int64_t>(i)))]) << i;
  }
}

// The elements of a flipped operand lie before its first one.
TEST(HostResult, ReadsBackwards) {
  const auto result_with = [](const Ints& strides) {
    KernelRequest request =
        request_of(find_op("concat"), {{"axis", int64_t{0}}},
                   {view(DType::f32, {3, 3}, 1), view(DType::f32, {2, 3}, 2)}, DType::f32, {5, 3}, {}, {});
    request.inputs[0].strides = strides;
    return to_doubles(host_result(request).at(0));
  };
  const std::vector<double> forwards = result_with({3, 1}), backwards = result_with({-3, -1});
  std::vector<double> turned = forwards;
  std::reverse(turned.begin(), turned.begin() + 9);
  EXPECT_EQ(backwards, turned);
}

// It has no kernel that would compute these as the device does, and must say so.
TEST(HostResult, IsNoneForBytesAndForComputedImagesWithChannelsLast) {
  const std::vector<TestOperand> bytes = {view(DType::f8e4m3, {1, 8, 16}, 1),
                                          view(DType::f8e4m3, {1, 16, 8}, 2), view(DType::f32, {8}, 3)};
  const Epilogue epilogue{.bias = true, .activation = "relu"};
  EXPECT_TRUE(
      host_result(request_of(find_op("wide_batch_matmul"), {}, bytes, DType::f32, {1, 8, 8}, {}, epilogue))
          .empty());
  const TiledCase c{{2, 12, 5, 6}, {10, 12, 3, 3}, {.padding = 1}};
  KernelRequest computed = with_channels_last(request_of(find_op("conv2d"), conv_attrs(c.options),
                                                         {view(DType::f32, c.x, 1), view(DType::f32, c.w, 2)},
                                                         DType::f32, {2, 10, 5, 6}, {}, {}));
  const int64_t pixels = 2 * 5 * 6;
  computed.inputs[0].strides = channels_last_strides(c.x);
  computed.prologue = Prologue{0, normalising_loop({1, pixels, 12}, DType::f32, DType::f32)};
  computed.inputs.push_back(computed.inputs[0]);
  for (const Shape& shape : {Shape{pixels}, Shape{pixels}, Shape{12}, Shape{12}})
    computed.inputs.push_back({DType::f32, shape, {}, contiguous_strides(shape)});
  EXPECT_TRUE(host_result(computed).empty());
}

/// Runs the tiled candidates. `k`: the largest number of products that are added up for one result.
/// `names` gets the op with the first words of their names: "conv2d implicit".
void check_tiled(const std::string& op, const Attrs& attrs, const std::vector<TestOperand>& inputs,
                 const Shape& shape, const Epilogue& epilogue, int64_t k, int groups, bool last,
                 std::set<std::string>& names) {
  const DType dtype = inputs[0].desc.dtype;
  KernelRequest request = request_of(find_op(op), attrs, inputs, dtype, shape, {}, epilogue);
  const std::vector<double> want = reference_of(request, inputs);
  if (last && op != "conv2d_weight_grad") request = with_channels_last(std::move(request));
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits traits = traits_of(device);
    traits.compute_units = groups;
    auto candidates = candidates_for(request, traits);
    EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed: " << request.key();
    std::erase_if(candidates, [](const GpuCandidate& one) { return !one.parameters.contains("tile_m"); });
    for (const GpuCandidate& one : candidates)
      names.insert(op + " " + one.name.substr(0, one.name.find(' ')));
    std::vector<Run> runs;
    for (const GpuCandidate& candidate : reduced(std::move(candidates)))
      runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
    // Lane units leave out products with only one step along K, which would spill registers.
    const bool by_lanes = std::ranges::none_of(
        traits.matrix_units, [&](const MatrixUnit& unit) { return unit.input == dtype && !unit.tf32; });
    EXPECT_TRUE(!runs.empty() || (by_lanes && k <= 64)) << request.key();
    if (!runs.empty()) expect_all_near(runs, want, dtype == DType::f32 ? 2e-5 : 2e-2, request.key());
  }
}

/// `last`: images have their channels last in memory.
std::set<std::string> check_directions(DType dtype, const TiledCase& c, bool last) {
  std::set<std::string> names;
  const auto images_of = [&](const Shape& shape, unsigned seed) {
    return view(dtype, shape, seed, last ? channels_last_strides(shape) : Ints());
  };
  Attrs attrs = conv_attrs(c.options);
  const Shape y = ConvProblem(c.x, c.w, attrs).y;
  const int64_t taps = c.w[2] * c.w[3];
  check_tiled("conv2d", attrs, {images_of(c.x, 1), view(dtype, c.w, 2), view(dtype, {c.w[0]}, 3)}, y,
              {.bias = true, .activation = "relu"}, c.w[1] * taps, c.groups, last, names);
  Attrs images = attrs, weights = attrs;
  images.set("input_shape", c.x.to_ints());
  // With fewer than 8 results per pixel, other templates are used.
  if (c.w[1] >= 8)
    check_tiled("conv2d_input_grad", images,
                {images_of(y, 1), view(dtype, c.w, 2), view(dtype, {c.x[1]}, 3), view(DType::f32, {1}, 4),
                 view(dtype, c.x, 5)},
                c.x, {.chain = true}, c.w[0] * taps, c.groups, last, names);
  weights.set("weight_shape", c.w.to_ints());
  check_tiled("conv2d_weight_grad", weights, {images_of(c.x, 1), images_of(y, 2)}, c.w, {},
              y[0] * y[2] * y[3], c.groups, last, names);
  return names;
}

std::set<std::string> check_directions(DType dtype, const TiledCase& c) {
  if (size_of(dtype) == 2) check_directions(dtype, c, true);
  return check_directions(dtype, c, false);
}

class GpuConvTiles : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    for (const DeviceInfo& info : gpu_devices())
      if (!traits_of(info.device).registers)
        GTEST_SKIP() << "kernels for " << to_string(info.device) << " do not read memory by registers";
  }
};

TEST_P(GpuConvTiles, ThreeByThree) {
  check_directions(GetParam(), {{2, 32, 9, 8}, {24, 32, 3, 3}, {.padding = 1}});
  check_directions(GetParam(), {{1, 20, 7, 11}, {16, 20, 3, 3}});
}

// Images with channels last are read without a copy, where whole tiles have channels of one tap.
TEST_P(GpuConvTiles, ImagesWithoutTheirBorder) {
  if (size_of(GetParam()) != 2) GTEST_SKIP() << "images in f32 have their channels first";
  const TiledCase cases[] = {{{2, 64, 9, 8}, {64, 64, 3, 3}, {.padding = 1}},
                             {{3, 64, 7, 10}, {64, 64, 3, 3}, {.stride = 2, .padding = 1}},
                             {{2, 128, 6, 5}, {128, 64, 2, 5}, {.padding = {3, 4}, .groups = 2}},
                             {{1, 64, 12, 11}, {64, 64, 3, 2}, {.padding = {2, 1}, .dilation = 2}},
                             {{2, 64, 9, 9}, {64, 64, 1, 3}, {.stride = {1, 3}, .padding = {0, 1}}},
                             {{4, 64, 14, 13}, {64, 64, 3, 3}, {.padding = 1}, 8}};
  for (const TiledCase& c : cases) {
    SCOPED_TRACE(to_string(c.w));
    const std::set<std::string> names = check_directions(GetParam(), c, true);
    for (const char* op : {"conv2d", "conv2d_input_grad", "conv2d_weight_grad"})
      EXPECT_TRUE(names.contains(op + std::string(" implicit"))) << op;
    if (HasFailure()) return;
  }
}

// A mask has 32 taps at most; other convolutions copy their images.
TEST_P(GpuConvTiles, ManyTapsWithTheirBorder) {
  if (size_of(GetParam()) != 2) GTEST_SKIP() << "images in f32 have their channels first";
  const auto names = check_directions(GetParam(), {{1, 64, 9, 9}, {64, 64, 7, 7}, {.padding = 3}}, true);
  EXPECT_FALSE(names.contains("conv2d implicit"));
  EXPECT_TRUE(names.contains("conv2d_weight_grad implicit"));
}

// As the gradient of a concatenation: 64 of 96 channels.
TEST_P(GpuConvTiles, PartsOfImagesWithoutTheirBorder) {
  if (size_of(GetParam()) != 2) GTEST_SKIP() << "images in f32 have their channels first";
  const DType dtype = GetParam();
  const Shape x{2, 64, 7, 9}, w{32, 64, 3, 3}, y{2, 32, 7, 9};
  std::set<std::string> names;
  check_tiled(
      "conv2d", conv_attrs({.padding = 1}),
      {view(dtype, x, 1, channels_last_strides({2, 96, 7, 9})), view(dtype, w, 2), view(dtype, {32}, 3)}, y,
      {.bias = true}, 64 * 9, 1, true, names);
  EXPECT_TRUE(names.contains("conv2d implicit"));
}

TEST_P(GpuConvTiles, StridesAndDilations) {
  check_directions(GetParam(), {{2, 16, 9, 10}, {24, 16, 3, 3}, {.stride = 2, .padding = 1}});
  check_directions(GetParam(), {{1, 16, 12, 11}, {9, 16, 3, 2}, {.padding = {2, 1}, .dilation = 2}});
  check_directions(GetParam(), {{2, 8, 13, 9}, {8, 8, 2, 5}, {.stride = {2, 1}, .padding = {0, 3}}});
}

// Vectors that span two taps, and taps that are padded to whole vectors.
TEST_P(GpuConvTiles, FewChannels) {
  check_directions(GetParam(), {{1, 3, 20, 21}, {16, 3, 7, 7}, {.stride = 2, .padding = 3}});
}

// With one channel, taps are adjacent like channels, and an index has no digit for the channel.
TEST_P(GpuConvTiles, OneChannel) {
  check_directions(GetParam(), {{2, 1, 9, 8}, {12, 1, 3, 3}, {.padding = 1}});
  check_directions(GetParam(), {{4, 1, 14, 13}, {9, 1, 5, 3}, {.stride = 2}, 8});
}

// In the gradient by the images, most phases of a stride have no taps, but the epilogue must still write to
// them.
TEST_P(GpuConvTiles, PhasesWithoutTaps) {
  check_directions(GetParam(), {{2, 12, 7, 8}, {16, 12, 1, 1}, {.stride = 3, .padding = 1}});
  check_directions(GetParam(), {{1, 16, 9, 9}, {8, 16, 2, 1}, {.stride = 3}});
  // The only phase has the last tap.
  check_directions(GetParam(), {{40, 16, 1, 1}, {16, 16, 2, 2}, {.stride = 2, .padding = 1}});
}

TEST_P(GpuConvTiles, Groups) {
  check_directions(GetParam(), {{2, 24, 6, 7}, {32, 12, 3, 3}, {.padding = 1, .groups = 2}});
}

// Complete and incomplete vectors of pixels, read in place; with a stride, some pixels are not read.
TEST_P(GpuConvTiles, OneByOne) {
  EXPECT_TRUE(check_directions(GetParam(), {{2, 32, 8, 6}, {24, 32, 1, 1}}).contains("conv2d implicit"));
  check_directions(GetParam(), {{3, 24, 7, 7}, {20, 24, 1, 1}});
  check_directions(GetParam(), {{3, 24, 2, 6}, {40, 24, 1, 1}});
  check_directions(GetParam(), {{2, 20, 9, 7}, {24, 20, 1, 1}, {.stride = 2}});
  if (size_of(GetParam()) == 2) {
    const TiledCase c{{2, 24, 9, 7}, {24, 24, 1, 1}, {.stride = 2}};
    EXPECT_TRUE(check_directions(GetParam(), c, true).contains("conv2d implicit"));
  }
  check_directions(GetParam(), {{40, 72, 1, 1}, {48, 72, 1, 1}});
}

// For images of one pixel, results are column by column in memory, so columns must be stored in vectors.
TEST(ConvTileStores, AreOfSixteenBytes) {
  const Shape x{256, 1024, 1, 1}, w{512, 1024, 1, 1}, y{256, 512, 1, 1};
  const auto desc = [](const Shape& shape) {
    return OperandDesc{DType::bf16, shape, {}, contiguous_strides(shape)};
  };
  const KernelRequest request{&find_op("conv2d"), conv_attrs({}), {desc(x), desc(w)}, {desc(y)}, {}};
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    GpuTraits traits;
    add_architecture(traits, GpuTarget::cuda, architecture);
    for (const GpuCandidate& candidate : candidates_for(request, traits)) {
      if (!candidate.parameters.contains("tile_m") || candidate.parameters.at("splits") > 1) continue;
      const std::string& source = candidate.launches.back().source;
      EXPECT_NE(source.find("WRITE_EXCHANGED(4, c"), std::string::npos) << candidate.name;
      EXPECT_EQ(source.find("STORE(bf16, c"), std::string::npos) << candidate.name;
    }
  }
}

// A kernel of one row has pixels and taps that are evenly apart, as boxes need them. But a box has no border.
TEST(ConvTileBorders, AreNotCopiedAsBoxes) {
  const Shape x{16, 128, 17, 17}, w{128, 128, 1, 7}, y = x;
  const auto images = [](const Shape& shape) {
    return OperandDesc{DType::bf16, shape, {}, channels_last_strides(shape)};
  };
  const KernelRequest request{&find_op("conv2d"),
                              conv_attrs({.padding = {0, 3}}),
                              {images(x), {DType::bf16, w, {}, contiguous_strides(w)}},
                              {images(y)},
                              {}};
  GpuTraits traits;
  add_architecture(traits, GpuTarget::cuda, "sm_90a");
  traits.compute_units = 132;
  traits.max_group_size = 1024;
  traits.local_bytes_at_launch = 227 * 1024;
  int bordered = 0;
  for (const GpuCandidate& candidate : candidates_for(request, traits)) {
    if (!candidate.name.starts_with("implicit") || !candidate.parameters.contains("tile_m")) continue;
    ++bordered;
    EXPECT_FALSE(candidate.parameters.contains("boxes")) << candidate.name;
    EXPECT_NE(candidate.launches.back().source.find("_taps["), std::string::npos) << candidate.name;
  }
  EXPECT_GT(bordered, 0);
}

TEST_P(GpuConvTiles, SplitsALongK) {
  check_directions(GetParam(), {{4, 64, 14, 13}, {16, 64, 3, 3}, {.padding = 1}, 8});
  check_directions(GetParam(), {{4, 24, 12, 12}, {18, 24, 1, 1}, {}, 8});
}

// More than one tile along each axis.
TEST_P(GpuConvTiles, ManyTiles) {
  check_directions(GetParam(), {{3, 40, 12, 14}, {72, 40, 3, 3}, {.padding = 1}});
}

INSTANTIATE_TEST_SUITE_P(Types, GpuConvTiles, ::testing::Values(DType::f16, DType::bf16, DType::f32),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

// Factors are rounded to tf32 only if the request allows it, and only on units that do so.
TEST(GpuTf32, OnlyWhereItIsAskedFor) {
  ATHANOR_NEEDS_GPU();
  const Shape x{2, 16, 6, 7}, w{24, 16, 3, 3}, y{2, 24, 6, 7}, b{1, 144, 24};
  Attrs attrs = conv_attrs({.padding = 1}), images = attrs, weights = attrs;
  images.set("input_shape", x.to_ints());
  weights.set("weight_shape", w.to_ints());
  const auto of = [](const Shape& shape, unsigned seed) { return view(DType::f32, shape, seed); };
  struct Case {
    const char* op;
    Attrs attrs;
    std::vector<TestOperand> inputs;
    Shape shape;
  };
  const std::vector<Case> cases = {
      {"batch_matmul", {}, {of({1, 84, 144}, 1), of(b, 2)}, {1, 84, 24}},
      {"batch_matmul", {}, {of({1, 84, 144}, 1), view(DType::f32, b, 2, {144 * 24, 1, 144})}, {1, 84, 24}},
      {"conv2d", attrs, {of(x, 1), of(w, 2)}, y},
      {"conv2d_input_grad", images, {of(y, 1), of(w, 2)}, x},
      {"conv2d_weight_grad", weights, {of(x, 1), of(y, 2)}, w}};
  for (const Case& c : cases) {
    KernelRequest request{
        &find_op(c.op), c.attrs, {}, {{DType::f32, c.shape, {}, contiguous_strides(c.shape)}}, {}};
    for (const TestOperand& input : c.inputs) request.inputs.push_back(input.desc);
    request.compute = ComputeType::tf32;
    const std::vector<double> want = reference_of(request, c.inputs);
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      const GpuTraits& traits = traits_of(device);
      const auto candidates = candidates_for(request, traits);
      EXPECT_EQ(candidates.empty(), std::ranges::none_of(traits.matrix_units, &MatrixUnit::tf32))
          << request.key();
      std::vector<testing::Run> runs;  // athanor::testing::Run, not Test::Run()
      for (const GpuCandidate& candidate : candidates) {
        EXPECT_NE(candidate.name.find("tf32"), std::string::npos) << candidate.name;
        runs.push_back({candidate.name, run_on(device, candidate, c.inputs, request.output())});
      }
      if (!runs.empty()) expect_all_near(runs, want, request.rounding(), request.key());
    }
    request.compute = ComputeType::by_dtypes;
    for (const DeviceInfo& info : gpu_devices())
      for (const GpuCandidate& one : candidates_for(request, traits_of(info.device)))
        EXPECT_EQ(one.name.find("tf32"), std::string::npos) << one.name;
  }
}

}  // namespace
}  // namespace athanor::testing
