#include "athanor/ops/interpolate.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

Attrs resize_attrs(const Ints& size, const std::string& mode, bool corners, bool antialias) {
  return {{"size", size}, {"mode", mode}, {"align_corners", corners}, {"antialias", antialias}};
}

void check_resize(const Shape& x, const Ints& size, const std::string& mode, bool corners, bool antialias,
                  DType dtype = DType::f32, const Ints& strides = {}) {
  const double tolerance = dtype == DType::f32 ? 4e-6 : 2 * tolerance_of(dtype);
  Ints y = x.to_ints(), extents(y.begin() + 2, y.end());
  std::ranges::copy(size, y.begin() + 2);
  Attrs attrs = resize_attrs(size, mode, corners, antialias);
  check_candidates("interpolate", attrs, {view(dtype, x, 1, strides)}, Shape(y), tolerance);
  attrs.set("input_size", extents);
  check_candidates("interpolate_grad", attrs, {view(dtype, Shape(y), 2)}, x, 2 * tolerance);
}

TEST(GpuResize, EveryMode) {
  ATHANOR_NEEDS_GPU();
  for (const std::string mode : {"nearest", "nearest_exact", "linear", "cubic"})
    check_resize({2, 3, 7, 9}, {13, 4}, mode, false, false);
  for (const std::string mode : {"linear", "cubic"}) {
    check_resize({1, 2, 5, 17}, {9, 5}, mode, true, false);
    check_resize({1, 2, 5, 17}, {9, 5}, mode, false, true);
  }
}

TEST(GpuResize, OtherRanksTypesAndStrides) {
  ATHANOR_NEEDS_GPU();
  check_resize({2, 3, 11}, {4}, "linear", false, false);
  check_resize({1, 2, 3, 4, 5}, {5, 4, 2}, "linear", false, false);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    check_resize({1, 2, 5, 4}, {3, 8}, "linear", false, false, dtype);
  check_resize({2, 3, 4, 6}, {8, 3}, "cubic", false, false, DType::f32, {1, -2, 6, 24});
}

void check_regions(const Shape& x, const std::vector<double>& boxes, const std::vector<double>& pictures,
                   const Ints& output, double scale, int64_t samples, bool aligned,
                   DType dtype = DType::f32) {
  const double tolerance = dtype == DType::f32 ? 1e-5 : 4 * tolerance_of(dtype);
  const auto count = static_cast<int64_t>(pictures.size());
  Attrs attrs{{"output", output}, {"scale", scale}, {"samples", samples}, {"aligned", aligned}};
  const TestOperand where = make_value(dtype, {count, 4}, boxes),
                    which = make_value(DType::i64, {count}, pictures);
  const Shape y{count, x[1], output[0], output[1]};
  check_candidates("roi_align", attrs, {view(dtype, x, 1), where, which}, y, tolerance);
  attrs.set("input_shape", x.to_ints());
  check_candidates("roi_align_grad", attrs, {where, which, view(dtype, y, 2)}, x, 4 * tolerance);
}

// Boxes that reach out of the picture, lie outside, are empty or the wrong way round.
TEST(GpuRegions, OddBoxes) {
  ATHANOR_NEEDS_GPU();
  const std::vector<double> boxes{1, 1, 4,  5, -3, -2, 2.5, 9, 30, 30, 40, 40,
                                  2, 2, 2., 2, 5,  4,  1,   1, 0,  0,  7,  5};
  const std::vector<double> pictures{1, 0, 1, 0, 0, 1};
  for (const bool aligned : {false, true})
    check_regions({2, 3, 6, 8}, boxes, pictures, {2, 3}, 1, 2, aligned);
  check_regions({2, 1, 5, 3}, boxes, pictures, {1, 4}, 0.5, 3, true);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    check_regions({2, 2, 6, 8}, boxes, pictures, {2, 2}, 1, 1, false, dtype);
}

}  // namespace
}  // namespace athanor::testing
