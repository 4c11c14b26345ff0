// conv2d_weight_grad without gathering, for few output channels.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/conv_shifted.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

namespace {

/// A group sums `rows` output channels' products with one row of taps of an input channel. It does so `each`
/// times. The images are `splits` parts, whose sums are results of their own.
struct ShiftedWeights {
  int64_t rows, width, items, splits, each;
};

/// The result's gradient times the images, shifted by each tap, summed along runs of pixels as they lie in
/// memory. Both are copies by shifted_copy() with rows `line` apart; the gradient has zeros between its rows.
class ShiftedWeightsKernel {
 public:
  ShiftedWeightsKernel(const GemmProblem& problem, const ConvProblem& conv, const ShiftedCopy& images,
                       const ShiftedWeights& point)
      : p_(problem),
        conv_(conv),
        images_(images),
        point_(point),
        span_((conv.y[2] - 1) * images.line + conv.y[3]),
        taps_w_(conv.w[3]),
        type_(stored(problem.dtype)),
        sum_type_(point.splits > 1 ? "f32" : type_),
        vectors_{problem.dtype, point.width} {}

  std::string text() {
    open_kernel(code_, "conv_shifted_weights",
                {{"images", "const " + type_}, {"gradients", "const " + type_}, {"weights", sum_type_}},
                false);
    if (point_.items > 1) code_.line(fmt::format("LOCAL f32 shares[{}];", point_.items));
    const int64_t row_tiles = ceil_div(p_.m, point_.rows), channels = conv_.w[1], taps_h = conv_.w[2];
    open_tiles(code_, point_.each, row_tiles * taps_h * channels * p_.batch * point_.splits);
    take_of_tile(code_, "row_tile", row_tiles);
    take_of_tile(code_, "y", taps_h);
    take_of_tile(code_, "c", channels);
    take_of_tile(code_, "batch", p_.batch);
    find_rows(code_, p_.m, point_.rows);
    code_.line(fmt::format("{} sums[{}][{}];", vectors_.type(), point_.rows, taps_w_));
    code_.open(over_rows());
    code_.line(fmt::format("{} sums[r][x] = {};", over_taps(), vectors_.zero()));
    code_.close();
    add_images();
    code_.open(over_rows());
    code_.open(over_taps());
    finish();
    code_.close();
    code_.close();
    close_tiles(code_, point_.each);
    code_.close();
    return vectors_.function() + code_.text();
  }

 private:
  std::string over_rows() const { return fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows); }
  std::string over_taps() const { return fmt::format("UNROLL for (int x = 0; x < {}; ++x)", taps_w_); }
  int64_t gradient_row() const { return conv_.y[2] * images_.line; }  // of an output channel

  void add_images() {
    const int64_t phase = images_.lines * images_.line;
    if (point_.splits == 1)
      code_.open(fmt::format("for (int image = 0; image < {}; ++image)", conv_.x[0]));
    else
      code_.open(fmt::format("for (int image = tile * {0}; image < (tile + 1) * {0}; ++image)",
                             conv_.x[0] / point_.splits));
    code_.line(fmt::format("GLOBAL const {} *const from = images + ((({} + batch) * {} + c) * {} + {});",
                           type_, times("image", p_.batch), conv_.w[1], images_.plane(),
                           shifted(times("y", conv_.dilation.height), conv_.stride.height,
                                   conv_.stride.width * phase, images_.line)));
    code_.line(fmt::format("GLOBAL const {} *const gradient = gradients + (({} + batch) * {} + m0) * {};",
                           type_, times("image", p_.batch), p_.m, gradient_row()));
    const std::string x = shifted(times("x", conv_.dilation.width), conv_.stride.width, phase, 1);
    const auto load_pixels = [&](const std::string& at) {
      code_.line(fmt::format("{} pixels[{}];", vectors_.type(), taps_w_));
      code_.line(fmt::format("{} pixels[x] = {};", over_taps(), vectors_.load("from", plus(x, at))));
    };
    const auto add = [&] {
      code_.line(fmt::format("{} sums[r][x] = {};", over_taps(),
                             vectors_.multiply_add("g", "pixels[x]", "sums[r][x]")));
      code_.close();
    };
    const int64_t rest = span_ % point_.width;
    code_.open(fmt::format("for (int q = {}; q < {}; q += {})",
                           point_.items == 1 ? "0" : times("LOCAL_ID(0)", point_.width), span_ - rest,
                           point_.items * point_.width));
    load_pixels("q");
    code_.open(over_rows());
    code_.line(fmt::format("const {} g = {};", vectors_.type(),
                           vectors_.load("gradient", fmt::format("r * {} + q", gradient_row()))));
    add();
    code_.close();
    if (rest != 0) {
      const int64_t last = span_ - point_.width;
      code_.line("// The last run is moved inside. Pixels that were already counted are multiplied by 0.");
      if (point_.items > 1) code_.open("if (LOCAL_ID(0) == 0)");
      load_pixels(fmt::format("{}", last));
      code_.open(over_rows());
      code_.line(fmt::format("f32 lanes[{}];", point_.width));
      code_.line(fmt::format(
          "UNROLL for (int i = 0; i < {}; ++i) lanes[i] = i < {} ? 0 : LOAD({}, gradient, r * {} + {} + i);",
          point_.width, point_.width - rest, language_name(p_.dtype), gradient_row(), last));
      code_.line(fmt::format("const {} g = VLOAD({}, lanes, 0);", vectors_.type(), point_.width));
      add();
      if (point_.items > 1) code_.close();
    }
    code_.close();
  }

  /// Adds the lanes and the items' shares of a sum, and stores it. What is computed twice is stored once.
  void finish() {
    code_.line(fmt::format("f32 lanes[{}], sum = 0;", point_.width));
    code_.line(fmt::format("VSTORE({}, lanes, 0, sums[r][x]);", point_.width));
    code_.line(fmt::format("UNROLL for (int i = 0; i < {}; ++i) sum += lanes[i];", point_.width));
    if (point_.items > 1) {
      code_.line("BARRIER();");
      code_.line("shares[LOCAL_ID(0)] = sum;");
      code_.open(fmt::format("for (int joined = {}; joined > 0; joined /= 2)", point_.items / 2));
      code_.line("BARRIER();");
      code_.line("if (LOCAL_ID(0) < joined) shares[LOCAL_ID(0)] += shares[LOCAL_ID(0) + joined];");
      code_.close();
      code_.line("sum = shares[0];");
    }
    code_.line(fmt::format("const int at = (((batch * {} + m0 + r) * {} + c) * {} + y) * {} + x;", p_.m,
                           conv_.w[1], conv_.w[2], taps_w_));
    std::string once = point_.items > 1 ? "LOCAL_ID(0) == 0" : "";
    if (p_.m % point_.rows != 0)
      once += fmt::format("{}m0 + r >= row_tile * {}", once.empty() ? "" : " && ", point_.rows);
    const std::string store = point_.splits > 1
                                  ? fmt::format("weights[tile * {} + at] = sum;", p_.batch * p_.m * p_.n)
                                  : fmt::format("STORE({}, weights, at, sum);", language_name(p_.dtype));
    code_.line(once.empty() ? store : fmt::format("if ({}) {}", once, store));
  }

  Code code_;
  const GemmProblem& p_;
  const ConvProblem& conv_;
  const ShiftedCopy& images_;
  const ShiftedWeights& point_;
  int64_t span_, taps_w_;
  std::string type_, sum_type_;
  GemmVectors vectors_;
};

}  // namespace

std::vector<GpuCandidate> shifted_weight_candidates(const KernelRequest& request, const ConvProblem& conv,
                                                    const GemmProblem& p, const GpuTraits& traits) {
  constexpr int64_t few_channels = 4;
  const OperandDesc &image = request.inputs[0], &gradient = request.inputs[1];
  if (p.m > few_channels || p.batch * p.m * p.n * p.k == 0 || p.dtype == DType::f64 || p.wide_index)
    return {};
  const Pair taps{conv.w[2], conv.w[3]};
  const Pair rows_and_columns{
      (conv.y[2] - 1) * conv.stride.height + (taps.height - 1) * conv.dilation.height + 1,
      (conv.y[3] - 1) * conv.stride.width + (taps.width - 1) * conv.dilation.width + 1};
  const ShiftedCopy images{conv.stride,
                           {-conv.padding.height, -conv.padding.width},
                           ceil_div(rows_and_columns.height, conv.stride.height),
                           ceil_div(rows_and_columns.width, conv.stride.width)};
  const ShiftedCopy gradients{1, 0, conv.y[2], images.line};
  const int64_t image_numbers = conv.x[0] * conv.x[1] * images.plane();
  const int64_t gradient_numbers = conv.y[0] * conv.y[1] * gradients.plane();
  if (std::max(image_numbers, gradient_numbers) >= INT32_MAX) return {};

  const int64_t span = (conv.y[2] - 1) * images.line + conv.y[3], channels = conv.w[1];
  const int64_t items = std::min(traits.grain->items, traits.max_group_size);
  int64_t width = traits.grain->width;
  while (width > span) width /= 2;
  const int64_t rows = std::clamp<int64_t>(24 / taps.width, 1, p.m);
  const int64_t tiles = ceil_div(p.m, rows) * taps.height * channels * p.batch;
  // If there are few tiles, splits the images into parts.
  int64_t splits =
      std::clamp<int64_t>(ceil_div(traits.grain->shifted_parts * traits.compute_units, tiles), 1, conv.x[0]);
  while (conv.x[0] % splits != 0) --splits;
  const int64_t vectors = conv.x[0] / splits * ceil_div(span, width) * rows * taps.width + 64;
  const int64_t each = tiles_of_group(traits, tiles * splits, vectors, traits.grain->shifted_weights_work);

  const auto item = static_cast<int64_t>(size_of(p.dtype));
  const auto padded = [](int64_t bytes) { return ceil_div(bytes, 256) * 256; };
  const GpuLaunch::Argument image_copy{p.scratch_buffer},
      gradient_copy{p.scratch_buffer, padded(image_numbers * item)},
      parts{p.scratch_buffer, gradient_copy.byte_offset + padded(gradient_numbers * item)};
  const GpuLaunch::Argument result{p.c.buffer, p.c.start};
  GemmProblem summed = p;
  summed.matrices = {};
  summed.c = {p.c.buffer, p.c.batch, p.n, 1, p.c.start};
  GpuCandidate candidate;
  candidate.name =
      fmt::format("shifted {}x{}{}", rows, taps.width, splits > 1 ? fmt::format(" split {}", splits) : "");
  candidate.parameters = {{"rows", rows}, {"width", width}, {"items", items}, {"splits", splits}};
  candidate.scratch_bytes =
      static_cast<size_t>(parts.byte_offset + (splits > 1 ? splits * p.batch * p.m * p.n * 4 : 0));
  candidate.launches = {
      shifted_copy(image, images, 0, image_copy, traits),
      shifted_copy(gradient, gradients, 1, gradient_copy, traits),
      {.name = "conv_shifted_weights",
       .source = ShiftedWeightsKernel(p, conv, images, {rows, width, items, splits, each}).text(),
       .groups = {ceil_div(tiles * splits, each), 1, 1},
       .group_size = {items, 1, 1},
       .local_bytes = items > 1 ? items * 4 : 0,
       .arguments = {image_copy, gradient_copy, splits > 1 ? parts : result}}};
  if (splits > 1) candidate.launches.push_back(sum_launch(summed, splits, parts));
  return {candidate};
}

}  // namespace athanor::gpu
