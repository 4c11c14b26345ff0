// ctc_loss and ctc_loss_grad: one launch, whereas the decomposition has several for each time.
#include <algorithm>
#include <bit>

#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {
namespace {

constexpr int64_t most_places = 1023;  // of a path: a group walks them

int64_t places_of(const Shape& targets) { return 2 * targets[1] + 1; }

int64_t local_bytes_of(int64_t places, DType dtype, bool gradient) {
  const int64_t real = dtype == DType::f64 ? 8 : 4;
  return local_array(4 * places) + local_array(2 * places * real) +
         (gradient ? local_array(places * real) : 0);
}

// The gradient decides for both: a loss whose gradient decomposes would be computed twice.
bool serves_ctc(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                const GpuTraits& traits) {
  const int64_t places = places_of(inputs[1].shape);
  return serves_floats(inputs, output, attrs, traits) && places <= most_places &&
         local_bytes_of(places, inputs[0].dtype, true) <= traits.local_bytes;
}

}  // namespace

static std::vector<GpuCandidate> ctc(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc &x = request.inputs[0], &targets = request.inputs[1];
  if (x.shape.size() == 0) return {{.name = "nothing"}};
  const bool gradient = request.op->name == "ctc_loss_grad", wide = x.dtype == DType::f64;
  const int64_t times = x.shape[0], batch = x.shape[1], classes = x.shape[2], labels = targets.shape[1],
                places = places_of(targets.shape);
  Defines defines;
  defines.set_dtype("DTYPE", x.dtype)
      .set("REAL", wide ? "f64" : "f32")
      .set("EXP", wide ? "exp_f64" : "exp_f32")
      .set("LOG", wide ? "log_f64" : "log_f32")
      .set("GRADIENT", gradient)
      .set("TIMES", times)
      .set("BATCH", batch)
      .set("CLASSES", classes)
      .set("LABELS", labels)
      .set("PLACES", places)
      .set("BLANK", request.attrs.integer("blank"))
      .set("X_TIME", x.strides[0])
      .set("X_EXAMPLE", x.strides[1])
      .set("X_CLASS", x.strides[2])
      .set("TARGET_EXAMPLE", targets.strides[0])
      .set("TARGET_LABEL", targets.strides[1])
      .set("TIMES_STRIDE", request.inputs[2].strides[0])
      .set("LABELS_STRIDE", request.inputs[3].strides[0])
      .set("DY_STRIDE", gradient ? request.inputs[4].strides[0] : 0);
  const int64_t real = wide ? 8 : 4, wanted = std::max(places, gradient ? classes : 1);
  const auto most = static_cast<uint64_t>(std::min(traits.max_group_size, traits.grain->side_by_side));
  const auto items =
      static_cast<int64_t>(std::min(std::bit_ceil(static_cast<uint64_t>(wanted)), std::bit_floor(most)));
  GpuLaunch launch{.name = "ctc",
                   .source = defines.text() + std::string(template_text("ctc")),
                   .groups = {batch, 1, 1},
                   .group_size = {items, 1, 1},
                   .local_bytes = local_bytes_of(places, x.dtype, gradient),
                   .can_fault = true};
  for (int i = 0; i < (gradient ? 7 : 5); ++i) launch.arguments.push_back({i});
  const auto scratch = gradient ? static_cast<size_t>(batch * times * places * real) : 0;
  return {{.name = "ctc", .scratch_bytes = scratch, .launches = {std::move(launch)}}};
}

namespace {

[[maybe_unused]] const bool ctc_registered =
    register_template({{"ctc_loss", "ctc_loss_grad"}, ctc, serves_ctc});

}  // namespace

}  // namespace athanor::gpu
