// Small tasks on signals, images and volumes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/nn/learning.h"

namespace athanor::nn {
namespace {

/// Smooth images of `size` x `size` elements with one bright spot each, [8, 1, size, size].
Tensor spots(int64_t size, Device device) {
  return made<float>({8, 1, size, size}, device, [=](int64_t i) {
    const auto at = [=](int64_t element) {
      return (static_cast<double>(element) + 0.5) / static_cast<double>(size);
    };
    const int64_t image = i / size / size;
    const double x = at(i % size) - 0.2 - 0.08 * static_cast<double>(image);
    const double y = at(i / size % size) - 0.2 - 0.08 * static_cast<double>(image * 3 % 8);
    return std::exp(-8 * (x * x + y * y));
  });
}

/// Finds the images of 4 x 4 elements that look like the spots if enlarged to two and four times their size.
class Enlarger : public Learner {
 public:
  Tensor loss(Device device) override {
    const Tensor four = interpolate(up_(small), {16, 16}, {.mode = Interpolation::cubic});
    const Tensor back = interpolate(four, {8, 8}, {.mode = Interpolation::linear, .antialias = true});
    return 100 * (mse_loss(four, spots(16, device)) + mse_loss(back, spots(8, device)));
  }

  Parameter small = add_parameter("small", normal({8, 1, 4, 4}));

 private:
  Upsample up_{2, {.mode = Interpolation::linear}};
};

TEST(Learning, UpsampleEnlarges) { learned<Enlarger>(200, 0.05, 5); }

/// Images with four marks of 4 x 4 elements. Which corner of a mark is bright is seen only in its own box.
class Marks : public Learner {
 public:
  static int64_t corner(int64_t image, int64_t mark) { return (image * 7 + mark * (image + 1)) % 4; }
  Tensor loss(Device device) override {
    // The marks start at rows and columns 1 or 2, and 9 or 10.
    const auto begins = [](int64_t image, int64_t half) { return 8 * half + 1 + (image >> half & 1); };
    const Tensor images = made<float>({4, 1, 16, 16}, device, [&](int64_t i) {
      const int64_t image = i / 256, row = i / 16 % 16, column = i % 16;
      const int64_t y = row - begins(image, row / 8), x = column - begins(image, column / 8);
      if (y < 0 || y > 3 || x < 0 || x > 3) return 0;
      return y / 2 * 2 + x / 2 == corner(image, row / 8 * 2 + column / 8) ? 1 : 0;
    });
    const Tensor boxes = made<float>({16, 5}, device, [&](int64_t i) {
      const int64_t image = i / 20, mark = i / 5 % 4, x = begins(image, mark % 2),
                    y = begins(image, mark / 2);
      return std::array<int64_t, 5>{image, x, y, x + 4, y + 4}[static_cast<size_t>(i % 5)];
    });
    const Tensor wanted = made<int64_t>({16}, device, [](int64_t i) { return corner(i / 4, i % 4); });
    return cross_entropy(reshape(roi_align(conv_(images), boxes, 2, {.aligned = true}), {16, 4}), wanted);
  }

 private:
  Conv2d& conv_ = add("conv", Conv2d(1, 1, 3, {.padding = 1}));
};

TEST(Learning, RoiAlignReadsItsBoxes) { learned<Marks>(100, 0.05, 0.1); }

/// Whether a low pulse comes before or after a high one; a mean over time does not show this.
class Pulses : public Learner {
 public:
  Tensor loss(Device device) override {
    const Tensor x = made<float>({16, 1, 12}, device, [](int64_t i) {
      const int64_t signal = i / 12, time = i % 12 - signal / 2 - 1;
      return time == signal % 2 ? 2 : time == 1 - signal % 2 ? 1 : 0;
    });
    const Tensor order = made<int64_t>({16}, device, [](int64_t i) { return i % 2; });
    return cross_entropy(20 * mean(reshape(silu(conv_(x)), {16, 2, 48}), {2}), order);  // 4 channels for each
  }

 private:
  Conv1d& conv_ = add("conv", Conv1d(1, 8, 3, {.padding = 1}));
};

TEST(Learning, Conv1dHearsTheOrder) { learned<Pulses>(300, 0.05, 0.3); }

/// A point that moves left, right, up or down; no single picture shows which.
class Movement : public Learner {
 public:
  Tensor loss(Device device) override {
    const Tensor x = made<float>({16, 1, 4, 8, 8}, device, [](int64_t i) {
      const int64_t film = i / 256, time = i / 64 % 4, way = film % 4, start = 2 + film / 4 % 2 - 1;
      const int64_t moved = start + (way % 2 == 0 ? time : 4 - time), still = 1 + film / 4;
      return i % 64 == (way < 2 ? still * 8 + moved : moved * 8 + still) ? 1 : 0;
    });
    const Tensor ways = made<int64_t>({16}, device, [](int64_t i) { return i % 4; });
    return cross_entropy(100 * mean(silu(conv_(x)), {2, 3, 4}), ways);
  }

 private:
  Conv3d& conv_ = add("conv", Conv3d(1, 4, 3, {.padding = 1}));
};

TEST(Learning, Conv3dSeesMovement) { learned<Movement>(150, 0.05, 0.2); }

/// Mirrors images through their overlapping windows: each window becomes its mirror image.
class Windows : public Learner {
 public:
  Tensor loss(Device device) override {
    const auto through = [&](const Tensor& map) {
      const Tensor columns = unfold2d(spots(7, device), 3, {.stride = 2});
      return fold2d(matmul(map, columns), 7, 3, {.stride = 2});
    };
    const Tensor mirror = made<float>(
        {9, 9}, device, [](int64_t i) { return i / 9 / 3 == i % 9 / 3 && i / 9 % 3 == 2 - i % 3; });
    return 10 * mse_loss(through(map), through(mirror));
  }

  Parameter map = add_parameter("map", 0.3 * normal({9, 9}));
};

TEST(Learning, FoldPutsWindowsBack) { learned<Windows>(200, 0.03, 0.2); }

}  // namespace
}  // namespace athanor::nn
