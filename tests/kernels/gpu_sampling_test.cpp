#include <cmath>
#include <limits>

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

// If the result is larger, the decomposition is faster on CPUs.
TEST(GpuResize, LargerResultsOnGpus) {
  const auto has_kernel = [](const Grain& grain, bool gradient, int64_t in, int64_t out) {
    GpuTraits traits;
    traits.grain = &grain;
    Attrs attrs = resize_attrs({out, out}, "linear", false, false);
    const TensorType x{DType::f32, {1, 2, in, in}, {}}, y{DType::f32, {1, 2, out, out}, {}};
    if (gradient) attrs.set("input_size", Ints{in, in});
    const TensorType given[] = {gradient ? y : x};
    return gpu_has_kernel(find_op(gradient ? "interpolate_grad" : "interpolate"), given, gradient ? x : y,
                          attrs, traits);
  };
  for (const bool gradient : {false, true}) {
    EXPECT_TRUE(has_kernel(fine_grain, gradient, 7, 13));
    EXPECT_FALSE(has_kernel(coarse_grain, gradient, 7, 13));
    EXPECT_TRUE(has_kernel(coarse_grain, gradient, 13, 7));
  }
  // Each element of this gradient would be a long sum in one work-item.
  EXPECT_TRUE(has_kernel(fine_grain, false, 2, 128));
  EXPECT_FALSE(has_kernel(fine_grain, true, 2, 128));
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

// Boxes that reach beyond the picture, lie outside it, are empty or inverted.
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

Attrs sampling_attrs(const std::string& mode, const std::string& border, bool corners) {
  return {{"mode", mode}, {"border", border}, {"align_corners", corners}};
}

void check_sampling(const std::string& mode, const std::string& border, bool corners,
                    DType dtype = DType::f32, const Ints& strides = {}) {
  const double tolerance = dtype == DType::f32 ? 2e-5 : 8 * tolerance_of(dtype);
  const Shape x{2, 11, 5, 7}, y{2, 11, 3, 4}, at{2, 3, 4, 2};  // more channels than an item handles
  std::vector<double> places;
  for (int i = 0; i < 48; ++i) places.push_back(i * 37 % 48 / 15.0 - 1.58);
  const TestOperand grid = make_value(dtype, at, places);
  Attrs attrs = sampling_attrs(mode, border, corners);
  check_candidates("grid_sample", attrs, {view(dtype, x, 1, strides), grid}, y, tolerance);
  if (mode != "nearest")
    check_candidates("grid_sample_grid_grad", attrs, {view(dtype, x, 1, strides), grid, view(dtype, y, 2)},
                     at, 32 * tolerance);
  if (size_of(dtype) < 4) return;
  attrs.set("input_size", Ints{5, 7});
  check_candidates("grid_sample_input_grad", attrs, {grid, view(dtype, y, 2)}, x, 4 * tolerance);
}

TEST(GpuGridSample, EveryModeAndBorder) {
  ATHANOR_NEEDS_GPU();
  for (const std::string border : {"zeros", "border", "reflection"})
    for (const std::string mode : {"linear", "nearest"}) check_sampling(mode, border, border == "border");
  check_sampling("linear", "reflection", true);
}

TEST(GpuGridSample, PlacesThatAreNone) {
  ATHANOR_NEEDS_GPU();
  constexpr double inf = std::numeric_limits<double>::infinity();
  const TestOperand grid =
      make_value(DType::f32, {1, 1, 5, 2}, {inf, 0, 0, -inf, std::nan(""), 0, 1e30, 0.1, 0.2, 0.3});
  for (const std::string mode : {"linear", "nearest"}) {
    Attrs attrs = sampling_attrs(mode, "zeros", false);
    check_candidates("grid_sample", attrs, {view(DType::f32, {1, 2, 4, 3}, 1), grid}, {1, 2, 1, 5}, 1e-5);
    attrs.set("input_size", Ints{4, 3});
    check_candidates("grid_sample_input_grad", attrs, {grid, view(DType::f32, {1, 2, 1, 5}, 2)}, {1, 2, 4, 3},
                     1e-5);
  }
}

TEST(GpuGridSample, OtherTypesAndStrides) {
  ATHANOR_NEEDS_GPU();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    check_sampling("linear", "zeros", false, dtype);
  check_sampling("linear", "zeros", false, DType::f32, {1, 2, 22, 110});
}

void check_sparse(const std::vector<double>& starts, DType dtype, const Ints& strides = {}, int64_t n = 3) {
  const double tolerance = dtype == DType::f32 ? 1e-5 : 4 * tolerance_of(dtype);
  const auto rows = static_cast<int64_t>(starts.size()) - 1;
  constexpr int64_t elements = 11, columns = 7;
  std::vector<double> where;
  for (int64_t e = 0; e < elements; ++e) where.push_back(static_cast<double>(e * 5 % columns));
  const TestOperand begin = make_value(DType::i64, {rows + 1}, starts),
                    column = make_value(DType::i64, {elements}, where);
  const TestOperand values = view(dtype, {elements}, 1), dense = view(dtype, {columns, n}, 2, strides),
                    dy = view(dtype, {rows, n}, 3);
  check_candidates("csr_matmul", {}, {begin, column, values, dense}, {rows, n}, tolerance);
  check_candidates("csr_matmul_values_grad", {}, {begin, column, dense, dy}, {elements}, tolerance);
  if (size_of(dtype) < 4) return;
  check_candidates("csr_matmul_dense_grad", {{"columns", columns}}, {begin, column, values, dy}, {columns, n},
                   tolerance);
}

TEST(GpuSparse, EmptyRowsAndStartsThatDoNotAscend) {
  ATHANOR_NEEDS_GPU();
  check_sparse({0, 2, 2, 7, 11, 11}, DType::f32);
  check_sparse({0, 9, 4, 2, 7, 11}, DType::f32);
  check_sparse({0, 11}, DType::f32);
  check_sparse({0, 4, 4, 4, 2, -3, 20, 11}, DType::f32, {}, 70);  // more columns than items share a row
  check_sparse({0, 3, 5, 11}, DType::f32, {1, 7});
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) check_sparse({0, 2, 2, 7, 11, 11}, dtype);
}

// If several work-items add to a sum in f64, this needs 64-bit atomics.
TEST(GpuAtomics, GradientsInF64NeedThem) {
  for (const bool atomics : {false, true}) {
    GpuTraits traits;
    traits.f64 = true;
    traits.atomics_64 = atomics;
    const auto has_kernel = [&](const char* op, const Attrs& attrs, const std::vector<TensorType>& given,
                                const Shape& result) {
      return gpu_has_kernel(find_op(op), given, {given.back().dtype, result, {}}, attrs, traits);
    };
    const auto has_both = [&](DType dtype) {
      Attrs attrs = sampling_attrs("linear", "zeros", false);
      attrs.set("input_size", Ints{5, 7});
      const bool sampling = has_kernel("grid_sample_input_grad", attrs,
                                       {{dtype, {2, 3, 4, 2}, {}}, {dtype, {2, 1, 3, 4}, {}}}, {2, 1, 5, 7});
      const bool sparse = has_kernel(
          "csr_matmul_dense_grad", {{"columns", int64_t{7}}},
          {{DType::i64, {4}, {}}, {DType::i64, {9}, {}}, {dtype, {9}, {}}, {dtype, {3, 2}, {}}}, {7, 2});
      EXPECT_EQ(sampling, sparse);
      return sampling;
    };
    EXPECT_TRUE(has_both(DType::f32));
    EXPECT_EQ(has_both(DType::f64), atomics);
    EXPECT_FALSE(has_both(DType::f16));
  }
}

}  // namespace
}  // namespace athanor::testing
