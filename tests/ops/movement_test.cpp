// Shapes and slices against NumPy's results.
#include "athanor/ops/movement.h"

#include <gtest/gtest.h>

#include "athanor/ops/ops.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;
using Longs = std::vector<int64_t>;
constexpr int64_t none = Slice::none;

Tensor counted(const Ints& shape) { return reshape(arange(Shape(shape).size()), shape); }
Longs longs(const Tensor& x) { return x.to_vector<int64_t>(); }

TEST(Movement, Reshape) {
  EXPECT_EQ(reshape(counted({2, 6}), {-1, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(reshape(zeros({0, 3}), {3, -1}).shape(), (Shape{3, 0}));
  EXPECT_EQ(flatten(counted({2, 3, 4}), 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(counted({2, 3, 4}), 0, 1).shape(), (Shape{6, 4}));
  EXPECT_EQ(flatten(zeros({})).shape(), (Shape{1}));
  EXPECT_EQ(squeeze(zeros({1, 3, 1})).shape(), (Shape{3}));
  EXPECT_EQ(squeeze(zeros({1, 3, 1}), {-1}).shape(), (Shape{1, 3}));
  EXPECT_EQ(unsqueeze(zeros({2, 3}), -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(unsqueeze(zeros({2, 3}), 0).shape(), (Shape{1, 2, 3}));
  expect_error(ErrorCode::shape,
               {"reshape(i64[2, 6])", "12 elements do not fit shape [5, -1]", "movement_test.cpp"}, [] {
                 reshape(counted({2, 6}), {5, -1});
               });
  expect_error(ErrorCode::shape, {"12 elements do not fit shape [5]"}, [] { reshape(counted({2, 6}), {5}); });
  expect_error(ErrorCode::shape, {"squeeze", "axis 0 has extent 2"}, [] { squeeze(zeros({2, 1}), {0}); });
}

TEST(Movement, AxesAreExchanged) {
  EXPECT_EQ(longs(transpose(counted({2, 3}))), (Longs{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(permute(counted({2, 3, 4}), {2, 0, -2}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(longs(permute(counted({2, 1, 3}), {2, 1, 0})), (Longs{0, 3, 1, 4, 2, 5}));
  expect_error(ErrorCode::shape, {"permute", "[0, 0] is not an order of 2 axes"}, [] {
    permute(counted({2, 3}), {0, 0});
  });
  expect_error(ErrorCode::shape, {"transpose", "axis 3 is out of range"}, [] {
    transpose(counted({2, 3}), 0, 3);
  });
}

TEST(Movement, Repetition) {
  EXPECT_EQ(longs(broadcast_to(counted({2, 1}), {2, 2, 2})), (Longs{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(longs(tile(counted({3}), {2, 2})), (Longs{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(longs(tile(counted({2, 2}), {2})), (Longs{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(longs(repeat_interleave(counted({3}), 2, 0)), (Longs{0, 0, 1, 1, 2, 2}));
  expect_error(ErrorCode::shape, {"broadcast", "[3] does not broadcast to [2]", "Only extents of 1"},
               [] { broadcast_to(counted({3}), {2}); });
}

TEST(Movement, JoiningAndSplitting) {
  EXPECT_EQ(longs(concat({counted({2}), counted({3})})), (Longs{0, 1, 0, 1, 2}));
  EXPECT_EQ(concat({zeros({2, 1}), zeros({2, 3}, DType::f64)}, -1).type().dtype, DType::f64);
  EXPECT_EQ(longs(stack({counted({2}), counted({2}) + 5}, 1)), (Longs{0, 5, 1, 6}));
  const auto pieces = split(counted({2, 5}), {2, 0, 3}, 1);
  EXPECT_EQ(pieces[1].shape(), (Shape{2, 0}));
  EXPECT_EQ(longs(pieces[2]), (Longs{2, 3, 4, 7, 8, 9}));
  const auto chunks = chunk(counted({7}), 3);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(longs(chunks[2]), (Longs{6}));
  EXPECT_EQ(chunk(counted({4}), 3).size(), 2U);
  expect_error(ErrorCode::shape, {"concat", "[2] and [2, 1] differ"}, [] {
    concat({zeros({2}), zeros({2, 1})});
  });
  expect_error(ErrorCode::shape, {"stack", "[2] and [3] differ", "movement_test.cpp"}, [] {
    stack({zeros({2}), zeros({3})});
  });
  expect_error(ErrorCode::shape, {"split", "[2, 2]", "which has 5"}, [] { split(zeros({5}), {2, 2}); });
  expect_error(ErrorCode::usage, {"concat", "at least one"}, [] { concat(std::vector<Tensor>{}); });
}

TEST(Movement, PaddingAndTurning) {
  EXPECT_EQ(longs(pad(counted({2, 2}), {1, 0}, {0, 1}, 9)), (Longs{9, 9, 9, 0, 1, 9, 2, 3, 9}));
  for (const double value : {3e9, 1e30, -1e30})  // wraps, as in full()
    EXPECT_EQ(pad(zeros({1}, DType::i32), {1}, {0}, value).to_vector<int32_t>()[0],
              full({1}, value, DType::i32).to_vector<int32_t>()[0]);
  EXPECT_EQ(longs(flip(counted({2, 3}), {1})), (Longs{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(longs(flip(counted({2, 3}))), (Longs{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(longs(roll(counted({5}), 2, 0)), (Longs{3, 4, 0, 1, 2}));
  EXPECT_EQ(longs(roll(counted({5}), -6, 0)), (Longs{1, 2, 3, 4, 0}));
  EXPECT_EQ(longs(unfold(counted({6}), 0, 2, 2, 2)), (Longs{0, 2, 2, 4}));
  EXPECT_EQ(longs(fold(ones({2, 3}, DType::i64), 0, 5, 2)), (Longs{1, 1, 2, 1, 1}));
  expect_error(ErrorCode::value, {"pad", "negative width", "slice"}, [] { pad(zeros({3}), {-1}, {0}); });
  expect_error(ErrorCode::shape, {"unfold", "spans 5 does not fit an extent of 4"},
               [] { unfold(zeros({4}), 0, 3, 1, 2); });
}

TEST(Slicing, AsNumPy) {
  const Tensor x = counted({3, 4});
  EXPECT_EQ(longs(slice(x, {1})), (Longs{4, 5, 6, 7}));
  EXPECT_EQ(longs(slice(x, {-1, Slice(1, 3)})), (Longs{9, 10}));
  EXPECT_EQ(longs(slice(x, {Slice(), 2})), (Longs{2, 6, 10}));
  EXPECT_EQ(longs(slice(x, {Slice(none, none, -1), -1})), (Longs{11, 7, 3}));
  EXPECT_EQ(longs(slice(x, {0, Slice(none, none, 2)})), (Longs{0, 2}));
  EXPECT_EQ(longs(slice(x, {0, Slice(-1, none, -2)})), (Longs{3, 1}));
  EXPECT_EQ(longs(slice(x, {0, Slice(10, -10, -1)})), (Longs{3, 2, 1, 0}));
  EXPECT_EQ(longs(slice(x, {Index::ellipsis, 1})), (Longs{1, 5, 9}));
  EXPECT_EQ(slice(x, {Index::new_axis, Index::ellipsis, Index::new_axis}).shape(), (Shape{1, 3, 4, 1}));
  EXPECT_EQ(slice(x, {Slice(2, 1)}).shape(), (Shape{0, 4}));
  EXPECT_EQ(slice(x, {Slice(5, 9)}).shape(), (Shape{0, 4}));
  EXPECT_EQ(slice(x, {Slice(-100, 100)}).shape(), (Shape{3, 4}));
  EXPECT_EQ(slice(x, {1, 2}).shape(), (Shape{}));
  EXPECT_EQ(longs(slice(x, 1, 1, 4, 2)), (Longs{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(slice(zeros({0, 3}), {Slice(none, none, -1)}).shape(), (Shape{0, 3}));
}

TEST(Slicing, GradientsGoBackToTheirPlaces) {
  Tensor x = cast(counted({2, 7}), DType::f64);
  x.requires_grad();
  sum(slice(x, {1, Slice(5, none, -2)}) * Tensor::from<double>({1, 2, 3}, {3})).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 2, 0, 1, 0}));
}

TEST(Slicing, Errors) {
  const Tensor x = counted({3, 4});
  expect_error(ErrorCode::value, {"slice(i64[3, 4])", "index 3 is out of range for axis 0, which has 3"},
               [&] { slice(x, {3}); });
  expect_error(ErrorCode::shape, {"3 indices", "for 2 axes"}, [&] { slice(x, {0, 0, 0}); });
  expect_error(ErrorCode::value, {"step of 0"}, [&] { slice(x, {Slice(0, 2, 0)}); });
}

TEST(Gather, Take) {
  const Tensor x = counted({3, 2}), index = Tensor::from<int64_t>({2, 0, 0, 1}, {2, 2});
  EXPECT_EQ(longs(take(x, index)), (Longs{4, 5, 0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(take(x, index).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(longs(take(x, cast(slice(index, {1}), DType::u8), 1)), (Longs{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(longs(gather(x, Tensor::from<int64_t>({1, 0, 1}, {3, 1}), 1)), (Longs{1, 2, 5}));
  EXPECT_EQ(longs(gather(x, Tensor::from<int64_t>({2, 1}, {2, 1}), 0)), (Longs{4, 5, 2, 3}));
  EXPECT_EQ(longs(scatter_add(Tensor::from<int64_t>({1, 1, 3}, {3}), counted({3}) + 1, 0, 4)),
            (Longs{0, 3, 0, 3}));
  expect_error(ErrorCode::dtype, {"take", "index of i64, not f32", "cast"}, [&] { take(x, zeros({2})); });
  expect_error(ErrorCode::shape, {"gather", "differ in rank", "take()"},
               [&] { gather(x, zeros({2}, DType::i64), 0); });
}

TEST(Gather, EmbeddingGathersGradientsOfRows) {
  Tensor weight = zeros({4, 2}, DType::f64);
  weight.requires_grad();
  sum(embedding(weight, Tensor::from<int64_t>({1, 3, 1}, {3})) * Tensor::from<double>({1, 2, 3}, {3, 1}))
      .backward();
  EXPECT_EQ(weight.grad().to_vector<double>(), (std::vector<double>{0, 0, 4, 4, 0, 0, 2, 2}));
}

TEST(Creation, Ranges) {
  EXPECT_EQ(longs(arange(4)), (Longs{0, 1, 2, 3}));
  EXPECT_EQ(longs(arange(5, -1, -2)), (Longs{5, 3, 1}));
  EXPECT_EQ(arange(3, 3).size(), 0);
  EXPECT_EQ(arange(0, 1, 0.25, DType::f32).to_vector<float>(), (std::vector<float>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(linspace(0, 1, 5, DType::f64).to_vector<double>(), (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  expect_error(ErrorCode::value, {"arange", "step must not be 0", "movement_test.cpp"},
               [] { arange(0, 5, 0); });
  expect_error(ErrorCode::dtype, {"arange", "Ask for floats"}, [] { arange(0, 1, 0.5); });
}

TEST(Creation, Patterns) {
  EXPECT_EQ(longs(eye(2, 3, DType::i64)), (Longs{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(longs(one_hot(Tensor::from<int64_t>({2, 0, 7}, {3}), 3, DType::i64)),
            (Longs{0, 0, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(longs(tril(counted({3, 3}))), (Longs{0, 0, 0, 3, 4, 0, 6, 7, 8}));
  EXPECT_EQ(longs(triu(counted({3, 3}), 1)), (Longs{0, 1, 2, 0, 0, 5, 0, 0, 0}));
  EXPECT_EQ(full({2}, 3.5).to_vector<float>(), (std::vector<float>{3.5F, 3.5F}));
  EXPECT_EQ(ones_like(counted({2})).dtype(), DType::i64);
}

}  // namespace
}  // namespace athanor
