// Resizing and sampling pictures: errors, and what PyTorch's results (torch_test.cpp) do not cover.
#include <gtest/gtest.h>

#include "tests/ops/values.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::count;
using testing::Doubles;
using testing::expect_error;
using testing::values;

TEST(Interpolate, KnownValues) {
  const Tensor x = reshape(count({4}), {1, 1, 4});
  EXPECT_EQ(values(interpolate(x, {8})), (Doubles{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(values(interpolate(x, {2})), (Doubles{0, 2}));
  EXPECT_EQ(values(interpolate(x, {2}, {.mode = Interpolation::nearest_exact})), (Doubles{1, 3}));
  EXPECT_EQ(values(interpolate(x, {8}, {.mode = Interpolation::linear})),
            (Doubles{0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3}));
  EXPECT_EQ(values(interpolate(x, {7}, {.mode = Interpolation::linear, .align_corners = true})),
            (Doubles{0, 0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(values(interpolate(x, {4}, {.mode = Interpolation::cubic})), (Doubles{0, 1, 2, 3}));
}

TEST(Interpolate, PositionsAreExact) {
  // In f32, i * (in / out) would fall below a whole number for some of these.
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{{49, 147}, {98, 41}, {1000, 333}}) {
    const Doubles got = values(interpolate(reshape(count({in}, DType::f32), {1, 1, in}), {out}));
    for (int64_t i = 0; i < out; ++i) {
      const int64_t source = i * in / out;
      EXPECT_EQ(got[static_cast<size_t>(i)], static_cast<double>(source));
    }
  }
}

TEST(Interpolate, Errors) {
  const Tensor x = zeros({2, 3, 8, 6});
  const InterpolateOptions smooth{.mode = Interpolation::linear, .align_corners = true, .antialias = true};
  expect_error(ErrorCode::shape,
               {"interpolate(f32[2, 3, 8, 6])", "1 new extents", "Give 2", "vision_test.cpp"},
               [&] { interpolate(x, {4}); });
  expect_error(ErrorCode::shape, {"x has 2 axes", "[N, C, H, W]"}, [] { interpolate(zeros({3, 4}), {}); });
  expect_error(ErrorCode::value, {"axis 3 from an extent of 6 to 0", "at least 1"}, [&] {
    interpolate(x, {4, 0});
  });
  expect_error(ErrorCode::value, {"axis 2 from an extent of 0 to 4"}, [] {
    interpolate(zeros({2, 3, 0, 6}), {4, 4});
  });
  expect_error(ErrorCode::value, {"nearest has no align_corners", "Interpolation::linear"}, [&] {
    interpolate(x, {4, 4}, {.align_corners = true});
  });
  expect_error(ErrorCode::value, {"antialias with align_corners"}, [&] { interpolate(x, {4, 4}, smooth); });
  expect_error(ErrorCode::dtype, {"takes floats, not i64"}, [] {
    interpolate(zeros({1, 1, 4}, DType::i64), {8});
  });
  expect_error(ErrorCode::value, {"interpolate(undefined)", "its input is undefined"},
               [] { interpolate(Tensor(), {8}); });
}

TEST(GridSample, OfTheIdentityIsThePicture) {
  const Tensor x = reshape(count({12}), {1, 1, 3, 4});
  const Tensor theta = Tensor::from<double>({1, 0, 0, 0, 1, 0}, {1, 2, 3});
  for (const bool corners : {false, true}) {
    const Doubles got =
        values(grid_sample(x, affine_grid(theta, {3, 4}, corners), {.align_corners = corners}));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], static_cast<double>(i), 1e-12);
  }
}

TEST(GridSample, FarOutside) {
  const Tensor x = ones({1, 1, 2, 2});
  const Tensor far = full({1, 1, 1, 2}, 1e30);
  EXPECT_EQ(values(grid_sample(x, far)), (Doubles{0}));
  EXPECT_EQ(values(grid_sample(x, far, {.border = Border::border})), (Doubles{1}));
}

TEST(GridSample, Errors) {
  const Tensor x = zeros({2, 3, 5, 4});
  expect_error(ErrorCode::shape,
               {"grid_sample(f32[2, 3, 5, 4], f32[2, 2, 2])", "[N, OH, OW, 2]", "vision_test.cpp"}, [&] {
                 grid_sample(x, zeros({2, 2, 2}));
               });
  expect_error(ErrorCode::shape, {"the grid [1, 2, 2, 2]"}, [&] { grid_sample(x, zeros({1, 2, 2, 2})); });
  expect_error(ErrorCode::dtype, {"one dtype"}, [&] { grid_sample(x, zeros({2, 2, 2, 2}, DType::f64)); });
  expect_error(ErrorCode::value, {"linearly or the nearest"}, [&] {
    grid_sample(x, zeros({2, 2, 2, 2}), {.mode = Interpolation::cubic});
  });
  expect_error(ErrorCode::shape, {"nothing to sample"}, [] {
    grid_sample(zeros({2, 3, 0, 4}), zeros({2, 2, 2, 2}));
  });
  expect_error(ErrorCode::shape, {"affine_grid", "theta is [2, 3]", "[N, 2, 3]"}, [] {
    affine_grid(zeros({2, 3}), 4);
  });
  expect_error(ErrorCode::value, {"an image of [0, 4]"}, [] { affine_grid(zeros({1, 2, 3}), {0, 4}); });
}

TEST(RoiAlign, Errors) {
  const Tensor x = zeros({2, 3, 5, 4});
  expect_error(ErrorCode::shape,
               {"roi_align(f32[2, 3, 5, 4], f32[1, 4])", "the boxes are [1, 4]", "image's number"}, [&] {
                 roi_align(x, zeros({1, 4}), 2);
               });
  expect_error(ErrorCode::value, {"0 samples", "at least 1"}, [&] {
    roi_align(x, zeros({1, 5}), 2, {.samples = 0});
  });
  expect_error(ErrorCode::shape, {"x is [2, 3, 5]"}, [] { roi_align(zeros({2, 3, 5}), zeros({1, 5}), 2); });
  expect_error(ErrorCode::value, {"index 2 is outside an axis of extent 2", "vision_test.cpp"}, [&] {
    values(roi_align(x, full({1, 5}, 2), 2));
  });
}

}  // namespace
}  // namespace athanor
