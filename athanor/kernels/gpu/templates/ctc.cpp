// ctc_loss and ctc_loss_grad: one launch, whereas the decomposition has several for each time.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "athanor/kernels/gpu/index_code.h"
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

/// A group takes an example through all its times, and an item computes some of its places (labels, with
/// blanks between and around them). Sums of probabilities are kept as logarithms. The gradient keeps those of
/// all times, `alpha`, and walks back.
class CtcKernel {
 public:
  explicit CtcKernel(bool gradient) : gradient_(gradient) {}

  std::string text(DType dtype) {
    const std::string read = "const " + stored(dtype);
    std::vector<Parameter> parameters{
        {"x", read}, {"targets", "const i64"}, {"times", "const i64"}, {"labels", "const i64"}};
    if (gradient_) {
      parameters.push_back({"dy", read});
      parameters.push_back({"dx", stored(dtype)});
      parameters.push_back({"alphas", "REAL"});
    } else {
      parameters.push_back({"y", stored(dtype)});
    }
    open_kernel(code_, name(), parameters, true);
    code_.line("LOCAL int path[PLACES];");
    code_.line("LOCAL REAL row[2][PLACES];");
    if (gradient_) code_.line("LOCAL REAL share[PLACES];");
    code_.line("const int n = GROUP_ID(0);");
    code_.line("const int end = (int)MAX((i64)1, MIN((i64)TIMES, times[n * TIMES_STRIDE]));");
    code_.line("const int places = 2 * (int)MAX((i64)0, MIN((i64)LABELS, labels[n * LABELS_STRIDE])) + 1;");
    if (gradient_) code_.line("GLOBAL REAL *const alpha = alphas + (i64)n * TIMES * PLACES;");
    read_path();
    walk_forward();
    code_.line("const int last = (end - 1) % 2;");
    code_.line("const REAL before_last = places > 1 ? row[last][places - 2] : IMPOSSIBLE;");
    code_.line("const REAL loss = -log_sum(row[last][places - 1], before_last, IMPOSSIBLE);");
    code_.line("const int possible = IS_POSSIBLE(-loss);");
    if (gradient_)
      walk_back();
    else
      code_.line(
          "if (LOCAL_ID(0) == 0) STORE(DTYPE, y, n, possible ? loss : (REAL)F32_OF_BITS(0x7F800000u));");
    code_.close();
    return code_.text();
  }

  std::string name() const { return gradient_ ? "ctc_loss_grad" : "ctc_loss"; }

 private:
  void read_path() {
    code_.open("EACH_PLACE(s)");
    code_.line("i64 label = BLANK;");
    code_.line("if (s % 2 == 1 && s < places) label = targets[n * TARGET_EXAMPLE + s / 2 * TARGET_LABEL];");
    code_.open("if (label < 0 || label >= CLASSES)");
    code_.line("FAULT(fault, label);");
    code_.line("label = BLANK;");
    code_.close();
    code_.line("path[s] = (int)label;");
    code_.line("row[0][s] = s < 2 && s < places ? X_AT(0, label) : IMPOSSIBLE;");
    if (gradient_) code_.line("alpha[s] = row[0][s];");
    code_.close();
    code_.line("BARRIER();");
  }

  void walk_forward() {
    open_time("int t = 1; t < TIMES; ++t", "before");
    code_.line("const REAL one_back = s > 0 ? row[before][s - 1] : IMPOSSIBLE;");
    code_.line("const REAL two_back = SKIPS(s) ? row[before][s - 2] : IMPOSSIBLE;");
    code_.line("const REAL sum = log_sum(row[before][s], one_back, two_back);");
    code_.line("row[now][s] = s < places ? MAX(sum + X_AT(t, path[s]), IMPOSSIBLE) : IMPOSSIBLE;");
    if (gradient_) code_.line("alpha[(i64)t * PLACES + s] = row[now][s];");
    close_places();
    code_.close();
  }

  void walk_back() {
    code_.line("const REAL factor = LOAD(DTYPE, dy, n * DY_STRIDE);");
    code_.line("BARRIER();");
    open_time("int t = TIMES - 1; t >= 0; --t", "next");
    code_.line("REAL rest = s < places && s + 2 >= places ? 0 : IMPOSSIBLE;");
    code_.open("if (t + 1 < end)");
    code_.line("const REAL one_on = s + 1 < places ? row[next][s + 1] : IMPOSSIBLE;");
    code_.line("const REAL two_on = s + 2 < places && SKIPS(s + 2) ? row[next][s + 2] : IMPOSSIBLE;");
    code_.line("rest = log_sum(row[next][s], one_on, two_on);");
    code_.close();
    code_.line("row[now][s] = s < places ? MAX(rest + X_AT(t, path[s]), IMPOSSIBLE) : IMPOSSIBLE;");
    code_.line("const REAL both = alpha[(i64)t * PLACES + s] + rest;");
    code_.line("share[s] = possible && s < places && IS_POSSIBLE(both) ? EXP(both + loss) * factor : 0;");
    close_places();
    code_.open("for (int c = LOCAL_ID(0); c < CLASSES; c += GROUP_EXTENT_0)");
    code_.line("REAL total = 0;");
    code_.line("for (int s = 0; t < end && s < places; ++s) total -= path[s] == c ? share[s] : 0;");
    code_.line("STORE(DTYPE, dx, ((i64)t * BATCH + n) * CLASSES + c, total);");
    code_.close();
    code_.line("BARRIER();");
    code_.close();
  }

  /// The places of each time of the example. Of `row`, one half is this time's, the other that of the time
  /// walked before it.
  void open_time(const std::string& times, const std::string& other) {
    code_.open(fmt::format("for ({})", times));
    code_.line(fmt::format("const int now = t % 2, {} = 1 - now;", other));
    code_.open("if (t < end)");
    code_.open("EACH_PLACE(s)");
  }
  void close_places() {
    code_.close();
    code_.close();
    code_.line("BARRIER();");
  }

  bool gradient_;
  Code code_;
};

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
  CtcKernel kernel(gradient);
  GpuLaunch launch{
      .name = kernel.name(),
      .source = defines.before(fmt::format("{}\n{}", template_text("ctc"), kernel.text(x.dtype))),
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
