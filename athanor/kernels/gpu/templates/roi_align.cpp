// roi_align and roi_align_grad.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {
namespace {

bool serves_regions(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                    const GpuTraits& traits) {
  return serves_floats(inputs, output, attrs, traits) && output.shape.size() > 0;
}

/// An item adds up a row of dx: no two items add to one element, so results are the same bits each time. Sums
/// of `narrow` floats are in memory of f32 until they are complete.
std::string gradient_text(DType dtype, bool narrow) {
  std::vector<Parameter> parameters{{"boxes", "const " + stored(dtype)},
                                    {"pictures", "const i64"},
                                    {"dy", "const " + stored(dtype)},
                                    {"dx", stored(dtype)}};
  if (narrow) parameters.push_back({"all_sums", "f32"});
  Code code;
  open_kernel(code, "roi_align_grad", parameters, true);
  code.line("const i64 item = GLOBAL_ID(0);");
  code.line("if (item >= COUNT) return;");
  code.line("const int h = (int)(item % HEIGHT), channel = (int)(item / HEIGHT % CHANNELS);");
  code.line("const int n = (int)(item / ((i64)HEIGHT * CHANNELS));");
  code.line(fmt::format("GLOBAL REAL *const sums = {} + item * WIDTH;", narrow ? "all_sums" : "dx"));
  code.line("add_row(sums, n, channel, h, boxes, pictures, dy, fault, fault_code);");
  if (narrow) code.line("for (int w = 0; w < WIDTH; ++w) STORE(DTYPE, dx, item * WIDTH + w, sums[w]);");
  code.close();
  return std::string(template_text("roi_align_row")) + "\n" + code.text();
}

}  // namespace

static std::vector<GpuCandidate> region_kernels(const KernelRequest& request, const GpuTraits& traits) {
  const bool gradient = request.op->name == "roi_align_grad";
  const DType dtype = request.output().dtype;
  const bool wide = dtype == DType::f64, narrow = dtype == DType::f16 || dtype == DType::bf16;
  const size_t boxes = gradient ? 0 : 1;
  // x, or its gradient; and the boxes' result, or its gradient.
  const Shape &x = gradient ? request.output().shape : request.inputs[0].shape,
              &y = gradient ? request.inputs[2].shape : request.output().shape;
  const OperandDesc& data = request.inputs[gradient ? 2 : 0];
  const bool aligned = request.attrs.flag("aligned");
  const int64_t count = gradient ? x[0] * x[1] * x[2] : y.size();
  Defines defines;
  defines.set_dtype("DTYPE", dtype)
      .set("REAL", wide ? "f64" : "f32")
      .set("COUNT", count)
      .set("PICTURES", x[0])
      .set("CHANNELS", x[1])
      .set("HEIGHT", x[2])
      .set("WIDTH", x[3])
      .set("BOXES", y[0])
      .set("ROWS", y[2])
      .set("COLUMNS", y[3])
      .set("SAMPLES", request.attrs.integer("samples"))
      .set("SCALE", fmt::format("{:#.17g}", request.attrs.number("scale")))
      .set("OFFSET", aligned ? "0.5" : "0.0")
      .set("ALIGNED", aligned)
      .set("BOX_0", request.inputs[boxes].strides[0])
      .set("BOX_1", request.inputs[boxes].strides[1])
      .set("PICTURE_0", request.inputs[boxes + 1].strides[0]);
  for (size_t axis = 0; axis < 4; ++axis) defines.set(fmt::format("DATA_{}", axis), data.strides[axis]);
  // An item of the gradient computes a whole row.
  const int64_t items =
      std::min(gradient ? traits.grain->items : traits.grain->element_items, traits.max_group_size);
  const std::string text = gradient ? gradient_text(dtype, narrow) : std::string(template_text("roi_align"));
  GpuLaunch launch{.name = gradient ? "roi_align_grad" : "roi_align",
                   .source = defines.before(fmt::format("{}\n{}", template_text("roi_align_point"), text)),
                   .groups = {ceil_div(count, items), 1, 1},
                   .group_size = {items, 1, 1},
                   .arguments = {{0}, {1}, {2}, {3}},
                   .can_fault = true};
  const bool sums = gradient && narrow;
  if (sums) launch.arguments.push_back({4});
  return {{.name = "roi_align",
           .scratch_bytes = sums ? static_cast<size_t>(x.size()) * 4 : 0,
           .launches = {std::move(launch)}}};
}

namespace {

[[maybe_unused]] const bool regions_registered =
    register_template({{"roi_align", "roi_align_grad"}, region_kernels, serves_regions});

}  // namespace

}  // namespace athanor::gpu
