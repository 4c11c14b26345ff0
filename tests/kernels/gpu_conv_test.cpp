#include <set>

#include "athanor/ops/conv_problem.h"
#include "gpu_kernels.h"
#include "tests/support/tile_traits.h"

namespace athanor::testing {
namespace {

struct ConvCase {
  Shape x, w;
  Conv2dOptions options;
};

// Winograd's transforms lose a few bits.
double conv_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 2e-5 : 2e-2; }

enum class Kind : uint8_t { forward, input_grad, weight_grad };

void check(Kind kind, DType dtype, const ConvCase& c, std::string_view only = {}) {
  Attrs attrs = conv_attrs(c.options);
  const Shape y = ConvProblem(c.x, c.w, attrs).y;
  const double tolerance = conv_tolerance(dtype);
  if (kind == Kind::forward) {
    check_candidates("conv2d", attrs, {view(dtype, c.x, 1), view(dtype, c.w, 2), view(dtype, {c.w[0]}, 3)}, y,
                     tolerance, {.bias = true, .activation = "relu"}, only);
  } else if (kind == Kind::input_grad) {
    attrs.set("input_shape", c.x.to_ints());
    check_candidates("conv2d_input_grad", attrs,
                     {view(dtype, y, 1), view(dtype, c.w, 2), view(dtype, {c.x[1]}, 3),
                      view(DType::f32, {1}, 4), view(dtype, c.x, 5)},
                     c.x, tolerance, {.chain = true}, only);
  } else {
    attrs.set("weight_shape", c.w.to_ints());
    check_candidates("conv2d_weight_grad", attrs, {view(dtype, c.x, 1), view(dtype, y, 2)}, c.w, tolerance,
                     {}, only);
  }
}

const std::vector<ConvCase> odd_cases = {
    {{2, 3, 8, 6}, {4, 3, 3, 3}, {.padding = 1}},
    {{1, 2, 7, 9}, {3, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
    {{2, 4, 9, 8}, {6, 2, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
    {{1, 5, 11, 13}, {7, 5, 3, 5}, {.padding = {2, 4}, .dilation = 2}},
    {{2, 6, 8, 8}, {6, 1, 3, 3}, {.padding = 1, .groups = 6}},
    {{1, 17, 16, 32}, {16, 17, 1, 1}, {}},
    {{0, 2, 4, 4}, {3, 2, 3, 3}, {.padding = 1}},
    {{2, 4, 5, 5}, {0, 4, 3, 3}, {.padding = 1}},
    {{1, 8, 15, 7}, {16, 1, 3, 3}, {.stride = {2, 1}, .padding = 1, .groups = 8}},
    {{2, 8, 8, 8}, {8, 8, 2, 2}, {.stride = 2}},
};

// Cases for Winograd's transforms: tiles that fit, that reach beyond the end, and too few for a vector.
const std::vector<ConvCase> three_by_three = {{{2, 8, 8, 6}, {9, 8, 3, 3}, {.padding = 1}},
                                              {{3, 9, 5, 7}, {8, 9, 3, 3}, {}},
                                              {{2, 8, 3, 33}, {17, 8, 3, 3}, {.padding = 2}}};

TEST(GpuConv, Forward) {
  ATHANOR_NEEDS_GPU();
  for (const ConvCase& c : odd_cases) check(Kind::forward, DType::f32, c);
}

TEST(GpuConv, InputGradient) {
  ATHANOR_NEEDS_GPU();
  for (const ConvCase& c : odd_cases) check(Kind::input_grad, DType::f32, c);
}

TEST(GpuConv, GradientsOfAConvolutionThatReadsOnlyPadding) {
  ATHANOR_NEEDS_GPU();
  const ConvCase c = {{2, 3, 1, 1}, {4, 3, 1, 1}, {.stride = 2, .padding = 1}};
  Attrs attrs = conv_attrs(c.options);
  const Shape y = ConvProblem(c.x, c.w, attrs).y;
  for (const DType dtype : {DType::f32, DType::f16}) {
    attrs.set("input_shape", c.x.to_ints());
    check_candidates("conv2d_input_grad", attrs, {view(dtype, y, 1), view(dtype, c.w, 2)}, c.x, 0, {}, "");
    check(Kind::input_grad, dtype, c);
    check(Kind::weight_grad, dtype, c);
  }
}

TEST(GpuConv, WeightGradient) {
  ATHANOR_NEEDS_GPU();
  for (const ConvCase& c : odd_cases) check(Kind::weight_grad, DType::f32, c);
}

TEST(GpuConv, ThreeByThree) {
  ATHANOR_NEEDS_GPU();
  for (const ConvCase& c : three_by_three) check(Kind::forward, DType::f32, c);
}

TEST(GpuConv, ThreeByThreeInputGradient) {
  ATHANOR_NEEDS_GPU();
  for (const ConvCase& c : three_by_three) check(Kind::input_grad, DType::f32, c);
}

// The positions of a vector's tiles in the images: rows of tiles as long as a vector and shorter, parts of
// rows, runs of one and of several tiles, rows that end within a tile. Padding of no pixel, one, and more
// than two.
TEST(GpuConv, WinogradRuns) {
  ATHANOR_NEEDS_GPU();
  const std::vector<ConvCase> cases = {{{1, 8, 8, 64}, {8, 8, 3, 3}, {.padding = 1}},
                                       {{2, 8, 28, 28}, {8, 8, 3, 3}, {.padding = 1}},
                                       {{1, 9, 6, 58}, {8, 9, 3, 3}, {}},
                                       {{1, 8, 5, 46}, {8, 8, 3, 3}, {.padding = 1}},
                                       {{3, 8, 4, 5}, {9, 8, 3, 3}, {.padding = 5}}};
  for (const ConvCase& c : cases) check(Kind::forward, DType::f32, c, "winograd 4x4");
  check(Kind::forward, DType::f32, cases[1], "winograd 2x2");
  check(Kind::weight_grad, DType::f32, cases[3], "winograd");
  check(Kind::input_grad, DType::f16, cases[4], "winograd 4x4");
}

// On GPUs the products are tiles, for the weights' gradient in parts of K.
TEST(GpuConv, WinogradByTiles) {
  ATHANOR_NEEDS_GPU();
  const Shape x{4, 16, 40, 40}, w{24, 16, 3, 3}, y{4, 24, 40, 40};
  const auto look = [&](const char* op, const Attrs& attrs, const std::vector<TestOperand>& inputs,
                        const Shape& result, std::string_view name) {
    const KernelRequest request = request_of(find_op(op), attrs, inputs, DType::f32, result, {}, {});
    const std::vector<double> want = reference_of(request, inputs);
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      GpuTraits traits = device.facts().traits;
      if (traits.lane_units.empty() || !traits.lanes_lead) traits = with_lane_tiles(traits);
      traits.grain = &fine_grain;
      traits.compute_units = 256;
      const auto all = candidates_for(request, traits);
      const auto found = std::ranges::find(all, name, &GpuCandidate::name);
      ASSERT_NE(found, all.end());
      EXPECT_TRUE(found->parameters.contains("tile_m"));
      if (name == "winograd 3x3 of 4x4") {
        EXPECT_GT(found->parameters.at("splits"), 1);
      }
      expect_all_near({{found->name, run_on(device, *found, inputs, request.output())}}, want,
                      conv_tolerance(DType::f32), request.key());
    }
  };
  const auto f32 = [](const Shape& shape, unsigned seed) { return view(DType::f32, shape, seed); };
  const Attrs attrs = conv_attrs({.padding = 1});
  look("conv2d", attrs, {f32(x, 1), f32(w, 2)}, y, "winograd 4x4");
  Attrs of_weights = attrs;
  of_weights.set("weight_shape", w.to_ints());
  look("conv2d_weight_grad", of_weights, {f32(x, 1), f32(y, 2)}, w, "winograd 3x3 of 4x4");
}

// With channels last, neighbouring items have neighbouring channels. Images and results may differ in it.
TEST(GpuConv, WinogradWithChannelsLast) {
  ATHANOR_NEEDS_GPU();
  struct Layouts {
    ConvCase conv;
    DType dtype;
    std::string_view outputs;  // the candidate's tiles
    bool tiles, results_too;   // whether the products are tiles; whether results have their channels last
  };
  const ConvCase small{{2, 8, 8, 6}, {12, 8, 3, 3}, {.padding = 1}},
      padded{{3, 9, 5, 7}, {8, 9, 3, 3}, {.padding = 2}};
  for (const auto& [conv, dtype, outputs, tiles, results_too] :
       {Layouts{small, DType::f32, "4x4", true, true}, Layouts{padded, DType::f16, "2x2", false, true},
        Layouts{small, DType::f32, "2x2", true, false}}) {
    const auto look = [&](const KernelRequest& request, const std::vector<TestOperand>& inputs, bool last) {
      const std::vector<double> want = reference_of(request, inputs);
      const KernelRequest asked = last ? with_channels_last(request) : request;
      for (const DeviceInfo& info : gpu_devices()) {
        gpu::GpuDevice& device = gpu::gpu_device(info.device);
        GpuTraits traits = device.facts().traits;
        if (tiles && (traits.lane_units.empty() || !traits.lanes_lead)) traits = with_lane_tiles(traits);
        traits.grain = &fine_grain;
        const auto all = candidates_for(asked, traits);
        const auto found = std::ranges::find_if(all, [&](const GpuCandidate& one) {
          return one.name.starts_with("winograd") && one.name.ends_with(outputs);
        });
        ASSERT_NE(found, all.end()) << asked.key();
        expect_all_near({{found->name, run_on(device, *found, inputs, asked.output())}}, want,
                        conv_tolerance(dtype), asked.key());
      }
    };
    Attrs attrs = conv_attrs(conv.options), of_images = attrs, of_weights = attrs;
    const Shape y = ConvProblem(conv.x, conv.w, attrs).y;
    of_images.set("input_shape", conv.x.to_ints());
    of_weights.set("weight_shape", conv.w.to_ints());
    const auto images = [&](const Shape& shape, unsigned seed, bool last) {
      return view(dtype, shape, seed, last ? channels_last_strides(shape) : Ints());
    };
    const TestOperand w = view(dtype, conv.w, 2), x = images(conv.x, 1, true), dy = images(y, 3, results_too);
    const std::vector<TestOperand> forward = {x, w, view(dtype, {conv.w[0]}, 4)};
    look(request_of(find_op("conv2d"), attrs, forward, dtype, y, {}, {.bias = true, .activation = "relu"}),
         forward, results_too);
    look(request_of(find_op("conv2d_input_grad"), of_images, {dy, w}, dtype, conv.x, {}, {}), {dy, w}, true);
    look(request_of(find_op("conv2d_weight_grad"), of_weights, {x, dy}, dtype, conv.w, {}, {}), {x, dy},
         false);
  }
}

// On processors the images take turns in the cache. All launches of a kind are compiled as one kernel, unless
// an epilogue reads operands at the place of each element.
TEST(GpuConv, WinogradOfPartsOfABatch) {
  ATHANOR_NEEDS_GPU();
  const Shape x{4, 8, 19, 30}, w{9, 8, 3, 3}, y{4, 9, 19, 30};
  const auto look = [&](const char* op, const Attrs& attrs, const std::vector<TestOperand>& inputs,
                        const Shape& result, const Epilogue& epilogue, size_t launches, size_t sources) {
    SCOPED_TRACE(op);
    const KernelRequest request = request_of(find_op(op), attrs, inputs, DType::f32, result, {}, epilogue);
    const std::vector<double> want = reference_of(request, inputs);
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      GpuTraits traits = device.facts().traits;
      Grain grain = *traits.grain;
      grain.cached_floats = 2 * 36 * (5 * 8) * (8 + 9);  // two images
      traits.grain = &grain;
      for (const GpuCandidate& one : candidates_for(request, traits)) {
        if (one.name != "winograd 4x4" && one.name != "winograd 3x3 of 4x4") continue;
        std::set<std::string> texts;
        for (const GpuLaunch& launch : one.launches) texts.insert(launch.source);
        EXPECT_EQ(one.launches.size(), launches);
        EXPECT_EQ(texts.size(), sources);
        expect_all_near({{one.name, run_on(device, one, inputs, request.output())}}, want,
                        conv_tolerance(DType::f32), request.key());
      }
    }
  };
  const auto f32 = [](const Shape& shape, unsigned seed) { return view(DType::f32, shape, seed); };
  Attrs attrs = conv_attrs({.padding = 1}), of_images = attrs, of_weights = attrs;
  look("conv2d", attrs, {f32(x, 1), f32(w, 2), f32({9}, 3)}, y, {.bias = true, .activation = "relu"}, 7, 4);
  of_images.set("input_shape", x.to_ints());
  look("conv2d_input_grad", of_images, {f32(y, 1), f32(w, 2), f32({8}, 3), f32({1}, 4), f32(x, 5)}, x,
       {.chain = true}, 7, 5);
  of_weights.set("weight_shape", w.to_ints());
  look("conv2d_weight_grad", of_weights, {f32(x, 1), f32(y, 2)}, w, {}, 7, 4);
}

// Few output channels: shapes narrower than a vector; tiles and rows of channels that are moved inwards;
// strides and dilations with and without common factors; kernels with phases that have no taps.
const std::vector<ConvCase> few_channels = {
    {{3, 2, 5, 4}, {1, 2, 3, 3}, {.padding = 1}},
    {{40, 3, 9, 9}, {2, 3, 1, 1}, {}},
    {{2, 5, 17, 33}, {11, 5, 5, 3}, {.padding = {2, 1}}},
    {{2, 3, 23, 21}, {7, 3, 7, 7}, {.stride = 2, .padding = 3}},
    {{1, 2, 14, 19}, {3, 2, 3, 3}, {.stride = {3, 2}, .padding = 2, .dilation = {2, 3}}},
    {{2, 6, 12, 10}, {6, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 6}},
    {{2, 4, 8, 30}, {6, 2, 2, 2}, {.stride = 2, .groups = 2}},
    {{1, 3, 1, 70}, {5, 3, 1, 4}, {.padding = {0, 1}}},
    {{2, 3, 9, 7}, {4, 3, 1, 1}, {.stride = 2}},
};

TEST(GpuConv, FewChannels) {
  ATHANOR_NEEDS_GPU();
  Kind kind = Kind::forward;
  for (const ConvCase& c : few_channels) {
    check(kind, DType::f32, c, "shifted");
    kind = kind == Kind::forward ? Kind::input_grad : Kind::forward;
  }
  check(Kind::forward, DType::f16, few_channels[3], "shifted");
  for (const ConvCase& c : few_channels)
    if (c.w[0] / c.options.groups <= 4) check(Kind::weight_grad, DType::f32, c, "shifted");
  check(Kind::weight_grad, DType::f32, {{2, 4, 5, 5}, {3, 4, 7, 7}, {.padding = 3}}, "shifted");
  check(Kind::weight_grad, DType::bf16, few_channels[4], "shifted");
  check(Kind::input_grad, DType::bf16, few_channels[4], "shifted");
}

TEST(GpuConv, OtherTypes) {
  ATHANOR_NEEDS_GPU();
  const ConvCase c = {{2, 9, 8, 6}, {8, 9, 3, 3}, {.padding = 1}};
  for (const Kind kind : {Kind::forward, Kind::input_grad, Kind::weight_grad}) check(kind, DType::bf16, c);
  check(Kind::forward, DType::f16, c);
  for (const Kind kind : {Kind::forward, Kind::input_grad, Kind::weight_grad}) check(kind, DType::f64, c);
}

TEST(GpuConv, Strides) {
  ATHANOR_NEEDS_GPU();
  const Shape x{2, 4, 8, 9}, w{6, 4, 3, 3}, y{2, 6, 8, 9};
  const Ints x_strides{1, 2 * 8 * 9, 2 * 9, 2}, w_strides{9, 54, 1, 3}, y_strides{72, 144, 1, 8};
  Attrs attrs = conv_attrs({.padding = 1});
  check_candidates(
      "conv2d", attrs,
      {view(DType::f32, x, 1, x_strides), view(DType::f32, w, 2, w_strides), view(DType::f32, {6}, 3, {2})},
      y, 2e-6, {.bias = true, .activation = "tanh"});
  check_candidates("conv2d", attrs, {view(DType::f32, x, 1, {0, 72, -9, 1}), view(DType::f32, w, 2)}, y,
                   2e-6);
  Attrs input = attrs, weight = attrs;
  input.set("input_shape", x.to_ints());
  check_candidates("conv2d_input_grad", input,
                   {view(DType::f32, y, 1, y_strides), view(DType::f32, w, 2, w_strides)}, x, 2e-6);
  weight.set("weight_shape", w.to_ints());
  check_candidates("conv2d_weight_grad", weight,
                   {view(DType::f32, x, 1, x_strides), view(DType::f32, y, 2, y_strides)}, w, 2e-6);
}

KernelRequest conv_request_for(const std::vector<TestOperand>& inputs) {
  const ConvProblem conv(inputs[0].desc.shape, inputs[1].desc.shape, conv_attrs({}));
  KernelRequest request{&find_op("conv2d"), conv_attrs({}), {}, {}, {}};
  for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
  request.outputs = {{inputs[0].desc.dtype, conv.y, {}, contiguous_strides(conv.y)}};
  return request;
}

// The part has Winograd's tiles and the columns of their products in other lanes; 4 pixels are whole tiles.
TEST(GpuConv, AnElementHasTheSameBitsWhereverInATileItLies) {
  ATHANOR_NEEDS_GPU();
  for (const DType dtype : types_with_tiles()) {
    const std::vector<TestOperand> inputs = {view(dtype, {1, 9, 38, 46}, 1), view(dtype, {21, 9, 3, 3}, 2)};
    const int64_t channel = dtype == DType::f16 ? 2 : 1, pixels = dtype == DType::f16 ? 8 : 4;
    const std::vector<TestOperand> part = {part_of(inputs[0], {0, 0, pixels, pixels}),
                                           part_of(inputs[1], {channel, 0, 0, 0})};
    const auto is_winograd = [](const GpuCandidate& one) { return one.name.starts_with("winograd"); };
    const auto is_other = [&](const GpuCandidate& one) { return !is_winograd(one) && may_overlap(one); };
    const Ints first{0, channel, pixels, pixels};
    const int64_t of_winograd = compare_with_part(conv_request_for, inputs, part, first, is_winograd),
                  of_others = compare_with_part(conv_request_for, inputs, part, first, is_other);
    EXPECT_GT(of_winograd, 10 * 20 * 20) << to_string(dtype);
    EXPECT_GT(of_others, 10 * 20 * 20) << to_string(dtype);
  }
}

}  // namespace
}  // namespace athanor::testing
