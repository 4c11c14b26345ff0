#include "athanor/train/device_augmentation.h"

#include <cmath>
#include <functional>

#include "athanor/data/random_stream.h"
#include "athanor/data/transforms.h"
#include "athanor/nn/picture_transforms.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/random.h"
#include "tests/support/expect_error.h"
#include "tests/support/gpu_devices.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

namespace host = transforms;
namespace device = nn::transforms;
using testing::expect_error;

constexpr int64_t count = 5, rows = 9, columns = 12;

/// Random pictures, in whose second half some pixels are black (even pictures) or grey (odd ones).
std::vector<Picture> pictures(int64_t channels) {
  std::vector<Picture> all;
  RandomStream random(4, 5, 6);
  for (int64_t n = 0; n < count; ++n) {
    Picture picture(channels, rows, columns);
    for (float& pixel : picture.pixels) pixel = static_cast<float>(random.between(0, 1));
    for (int64_t i = rows * columns / 2; i < rows * columns; i += 3)
      for (int64_t c = 0; c < channels; ++c) picture.plane(c)[i] = n % 2 == 0 ? 0.0F : picture.plane(0)[i];
    all.push_back(std::move(picture));
  }
  return all;
}

Tensor batch_of(const std::vector<Picture>& all) {
  std::vector<float> values;
  for (const Picture& picture : all)
    values.insert(values.end(), picture.pixels.begin(), picture.pixels.end());
  return Tensor::from(values, {count, all[0].channels, rows, columns});
}

std::vector<float> values_of(const Tensor& x) {
  const HostArray array = x.to_host();
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

Tensor floats(const std::vector<float>& values) { return Tensor::from(values, {count}); }
Tensor integers(const std::vector<int64_t>& values) { return Tensor::from(values, {count}); }

/// Compares the graph function of a batch with the host's function of each picture and its number.
void expect_same(int64_t channels, const std::function<Tensor(const Tensor&)>& graph,
                 const std::function<Picture(const Picture&, size_t)>& one, double tolerance = 2e-5) {
  const std::vector<Picture> all = pictures(channels);
  const std::vector<float> found = values_of(graph(batch_of(all)));
  size_t i = 0;
  for (size_t n = 0; n < all.size(); ++n) {
    const Picture wanted = one(all[n], n);
    for (const float value : wanted.pixels) {
      ASSERT_NEAR(found[i], value, tolerance) << "image " << n << ", value " << i;
      ++i;
    }
  }
}

TEST(PictureTransforms, AreThoseOfTheHost) {
  const std::vector<float> factors{0, 0.4F, 1, 1.7F, 3};
  const std::vector<int64_t> tops{-3, 0, 2, 3, -1}, lefts{1, -3, 0, 3, 2};
  const Tensor some = equal(integers({1, 0, 1, 1, 0}), 1);
  const auto chosen = [](size_t n) { return n == 0 || n == 2 || n == 3; };
  for (const int64_t channels : {1, 3}) {
    SCOPED_TRACE(channels);
    expect_same(
        channels, [&](const Tensor& x) { return device::flip_where(x, some, 3); },
        [&](const Picture& p, size_t n) { return chosen(n) ? host::horizontal_flip(p) : p; }, 0);
    expect_same(
        channels, [&](const Tensor& x) { return device::flip_where(x, some, 2); },
        [&](const Picture& p, size_t n) { return chosen(n) ? host::vertical_flip(p) : p; }, 0);
    expect_same(
        channels, [&](const Tensor& x) { return device::shift(x, integers(tops), integers(lefts), 3); },
        [&](const Picture& p, size_t n) { return host::crop(p, tops[n], lefts[n], rows, columns); }, 0);
    expect_same(
        channels, [&](const Tensor& x) { return device::adjust_brightness(x, floats(factors)); },
        [&](const Picture& p, size_t n) { return host::adjust_brightness(p, factors[n]); });
    expect_same(
        channels, [&](const Tensor& x) { return device::adjust_contrast(x, floats(factors)); },
        [&](const Picture& p, size_t n) { return host::adjust_contrast(p, factors[n]); });
    expect_same(
        channels, [&](const Tensor& x) { return device::adjust_saturation(x, floats(factors)); },
        [&](const Picture& p, size_t n) { return host::adjust_saturation(p, factors[n]); });
    const std::vector<float> shifts{-0.5F, -0.13F, 0, 0.21F, 0.5F};
    expect_same(
        channels, [&](const Tensor& x) { return device::adjust_hue(x, floats(shifts)); },
        [&](const Picture& p, size_t n) { return host::adjust_hue(p, shifts[n]); }, 1e-4);
    expect_same(
        channels, [&](const Tensor& x) { return device::grayscale_where(x, some); },
        [&](const Picture& p, size_t n) { return chosen(n) ? host::grayscale(p) : p; });
    const std::vector<float> sigmas{0.1F, 0.49F, 0.8F, 1.3F, 2};
    expect_same(
        channels, [&](const Tensor& x) { return device::gaussian_blur(x, floats(sigmas), 2); },
        [&](const Picture& p, size_t n) {
          return host::gaussian_blur(p, 2 * std::lround(std::ceil(2 * sigmas[n])) + 1, sigmas[n]);
        });
    const std::vector<float> top{0, 2, 8, 3, 5}, left{0, 11, 4, 3, 0}, high{9, 1, 1, 0, 2},
        wide{12, 1, 3, 5, 2};
    expect_same(
        channels,
        [&](const Tensor& x) {
          return device::erase(x, floats(top), floats(left), floats(high), floats(wide));
        },
        [&](const Picture& p, size_t n) {
          return host::erase(
              p, {std::lround(top[n]), std::lround(left[n]), std::lround(high[n]), std::lround(wide[n])});
        },
        0);
    const std::vector<float> angles{0, 17, -90, 133, -8}, across{0, 2, -3, 0, 5}, down{0, -1, 4, 1, 0},
        scales{1, 0.8F, 1.3F, 1, 2}, shears{0, 12, -30, 0, 7};
    expect_same(
        channels,
        [&](const Tensor& x) {
          return device::affine(
              x, {floats(angles), {floats(across), floats(down)}, floats(scales), floats(shears)});
        },
        [&](const Picture& p, size_t n) {
          return host::affine(p,
                              {.angle = angles[n],
                               .translate = {across[n], down[n]},
                               .scale = scales[n],
                               .shear = {shears[n], 0}},
                              host::Interpolation::bilinear);
        },
        1e-4);
  }
}

Normalization usual() { return {.mean = {0.5F, 0.4F, 0.3F}, .stddev = {0.2F, 0.25F, 0.3F}}; }

TEST(DeviceAugmentation, DrawsForEachPictureAndEachStep) {
  manual_seed(5);
  const DeviceAugmentation changes(Augmentation::parse("flip,crop=2"));
  const Tensor x = batch_of(pictures(3));
  const std::vector<float> first = values_of(changes(x, usual())), second = values_of(changes(x, usual()));
  EXPECT_NE(first, second);
  manual_seed(5);
  EXPECT_EQ(values_of(changes(x, usual())), first);
}

TEST(DeviceAugmentation, ChangesTheShareThatIsAskedFor) {
  constexpr int64_t many = 1000;
  const Tensor x = broadcast_to(Tensor::from(std::vector<float>{0, 1}, {1, 1, 1, 2}), {many, 1, 1, 2});
  const auto share = [&](const char* text) {
    const Tensor changed = DeviceAugmentation(Augmentation::parse(text))(x, {.mean = {0}, .stddev = {1}});
    const std::vector<float> values = values_of(changed);
    double sum = 0;
    for (size_t n = 0; n < many; ++n) sum += values[2 * n];
    return sum / many;
  };
  EXPECT_EQ(share("flip=0"), 0);
  EXPECT_EQ(share("flip=1"), 1);
  EXPECT_NEAR(share("flip=0.3"), 0.3, 0.06);
}

// With each kind of augmentation, pictures keep their range of values.
TEST(DeviceAugmentation, GivesPicturesOfTheirRange) {
  const Tensor x = batch_of(pictures(3));
  const Normalization as_it_is{.mean = {0}, .stddev = {1}};
  for (const char* text :
       {"crop", "flip", "vflip", "rotate=180", "affine", "jitter", "jitter=0:0:0:0.5", "grayscale=0.5",
        "blur", "erase=1", "crop,flip,affine,jitter,grayscale,blur,erase"}) {
    const std::vector<float> before = values_of(x);
    const std::vector<float> after = values_of(DeviceAugmentation(Augmentation::parse(text))(x, as_it_is));
    ASSERT_EQ(after.size(), before.size()) << text;
    EXPECT_NE(after, before) << text;
    for (const float value : after)
      ASSERT_TRUE(value >= -1e-6F && value <= 1 + 1e-6F) << text << ": " << value;
  }
}

TEST(DeviceAugmentation, NamesWhatOnlyTheLoaderDoes) {
  for (const char* text : {"resized-crop", "rand", "trivial"})
    expect_error(ErrorCode::usage, {"not done on the device"},
                 [&] { (void)DeviceAugmentation{Augmentation::parse(text)}; });
  expect_error(ErrorCode::usage, {"blur of 8"},
               [&] { (void)DeviceAugmentation{Augmentation::parse("blur=0.5:8")}; });
}

TEST(DeviceAugmentation, MixesAsTheHost) {
  constexpr int64_t classes = 3;
  const Tensor x = batch_of(pictures(3)), labels = integers({0, 2, 1, 1, 0});
  for (const char* text : {"mixup", "cutmix", "mixup=1,cutmix"})
    for (uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(std::string(text) + ", seed " + std::to_string(seed));
      const Augmentation asked = Augmentation::parse(text);
      manual_seed(seed);
      RandomStream random(static_cast<uint64_t>(default_generator().next_key()), 0, 0);
      HostArray wanted = x.to_host(), wanted_labels = labels.to_host();
      asked.mix(wanted, wanted_labels, classes, random);
      manual_seed(seed);
      const DeviceAugmentation there(asked);
      const auto [mixed, targets] = there.mix(there(x, usual()), labels, classes);
      const std::vector<float> values = values_of(mixed), shares = values_of(targets);
      for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], wanted.as<float>()[i], 1e-6) << i;
      for (size_t i = 0; i < shares.size(); ++i)
        ASSERT_NEAR(shares[i], wanted_labels.as<float>()[i], 1e-6) << i;
    }
}

class DeviceAugmentationRun : public testing::TrainerTest {};

// A run that was stopped in the middle of an epoch continues with the same random numbers.
TEST_F(DeviceAugmentationRun, GoesOnToTheSameNumbers) {
  config_.deterministic = true;  // so kernels do not change meanwhile
  config_.augment = "crop=1,flip=0.1,mixup,cutmix";
  std::vector<Device> devices{{}};
  for (const DeviceInfo& info : testing::gpu_devices()) devices.push_back(info.device);
  for (const Device device : devices) {
    const std::string name = to_string(device);
    config_.device = name;
    config_.augment_on = "loader";
    train(name + " loader");
    config_.augment_on = "device";
    train(name + " whole");
    EXPECT_NE(metrics(name + " whole"), metrics(name + " loader"));
    config_.max_steps = 7;
    train(name + " stopped");
    config_.max_steps = 0;
    train(name + " stopped", true);
    EXPECT_EQ(metrics(name + " stopped"), metrics(name + " whole"));
    EXPECT_GT(summary(name + " whole")["test_accuracy"], 0.5);
  }
}

}  // namespace
}  // namespace athanor
