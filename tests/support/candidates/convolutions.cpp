// Convolutions and their gradients.
#include "athanor/ops/conv_problem.h"
#include "tests/support/candidates/candidates.h"
#include "tests/support/normalising_loop.h"

namespace athanor {
namespace {

/// `title`: a layer's name, with which its kernels' names start.
void add_convolution(Writer& writer, DType dtype, const Shape& x, const Shape& w,
                     const Conv2dOptions& options, const std::string& title = {}, bool gradients = true) {
  const auto direction = [&](const char* name) { return title.empty() ? title : title + name; };
  Attrs attrs = conv_attrs(options);
  const Shape y = ConvProblem(x, w, attrs).y;
  writer.add("conv2d", attrs, dtype, {x, w}, y, {}, direction(": "));
  if (!gradients) return;
  Attrs images = attrs;
  images.set("input_shape", x.to_ints());
  writer.add("conv2d_input_grad", images, dtype, {y, w}, x, {}, direction(" dx: "));
  attrs.set("weight_shape", w.to_ints());
  writer.add("conv2d_weight_grad", attrs, dtype, {x, y}, w, {}, direction(" dw: "));
}

/// A convolution whose kernels normalise the channels of each pixel when they read or copy them.
void add_normalised_images(Writer& writer, DType dtype, const Shape& x, const Shape& w,
                           const Conv2dOptions& options) {
  const Attrs attrs = conv_attrs(options);
  KernelRequest request{&find_op("conv2d"),
                        attrs,
                        {whole({dtype, x, {}}), whole({dtype, w, {}})},
                        {whole({dtype, ConvProblem(x, w, attrs).y, {}})},
                        {}};
  use_layouts(request, writer.traits());
  if (!request.inputs[0].channels_last()) return;
  const int64_t channels = x[1], pixels = x.size() / channels;
  request.prologue = Prologue{0, normalising_loop({1, pixels, channels}, dtype, dtype)};
  request.inputs.push_back(request.inputs[0]);
  add_norm(request, pixels, channels, dtype);
  writer.add_computed(request);
}

}  // namespace

DType dtype_of_convolutions(GpuTarget target, std::string_view architecture) {
  return matrix_units(target, architecture).empty() ? DType::f32 : DType::f16;
}

void add_convolutions(Writer& writer) {
  add_convolution(writer, DType::f32, {64, 64, 32, 32}, {64, 64, 3, 3}, {.padding = 1});
  add_convolution(writer, DType::f32, {8, 3, 64, 64}, {64, 3, 7, 7}, {.stride = 2, .padding = 3});
  add_convolution(writer, DType::f32, {8, 64, 30, 30}, {64, 1, 3, 3}, {.padding = 1, .groups = 64});
  add_convolution(writer, DType::f32, {8, 64, 30, 30}, {3, 64, 5, 5}, {.padding = 2});
  add_convolution(writer, DType::bf16, {8, 64, 28, 28}, {64, 64, 3, 3}, {.padding = 1});
  add_convolution(writer, DType::bf16, {8, 64, 28, 28}, {128, 64, 1, 1}, {});
  add_convolution(writer, DType::bf16, {8, 3, 64, 64}, {64, 3, 7, 7}, {.stride = 2, .padding = 3});
  for (const int64_t taps : {3, 1})
    add_normalised_images(writer, DType::bf16, {8, 64, 28, 28}, {64, 64, taps, taps}, {.padding = taps / 2});
}

void write_convolutions(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, true);
  const DType dtype = dtype_of_convolutions(target, architecture);
  const auto add = [&](const char* title, int64_t channels, int64_t pixels, int64_t results, int64_t taps,
                       const Conv2dOptions& options = {}, bool gradients = false) {
    add_convolution(writer, dtype, {32, channels, pixels, pixels}, {results, channels, taps, taps}, options,
                    title, gradients);
  };
  add("7x7/2 3>64", 3, 224, 64, 7, {.stride = 2, .padding = 3});
  add("1x1 64>256", 64, 56, 256, 1);
  add("3x3 64", 64, 56, 64, 3, {.padding = 1}, true);
  add("3x3/2 128", 128, 56, 128, 3, {.stride = 2, .padding = 1}, true);
  add("3x3 128", 128, 28, 128, 3, {.padding = 1});
  add("3x3 256", 256, 14, 256, 3, {.padding = 1});
  add("1x1 1024>256", 1024, 14, 256, 1, {}, true);
  add("3x3 512", 512, 7, 512, 3, {.padding = 1}, true);
  writer.finish();
}

}  // namespace athanor
