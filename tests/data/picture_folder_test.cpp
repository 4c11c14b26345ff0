// Folders of pictures by class, and the files of CIFAR and EMNIST, opened by open_dataset().
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "athanor/data/dataloader.h"
#include "athanor/data/open_dataset.h"
#include "tests/support/expect_error.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::gradient;
using testing::put_file;
using testing::TempFolder;

std::vector<float> inputs_of(const Dataset& dataset, int64_t index, int64_t& label) {
  std::vector<float> input(static_cast<size_t>(dataset.spec().input.size()));
  dataset.read(index, input.data(), label);
  return input;
}

/// Two classes, with all three kinds of files in different sizes.
void write_pictures(const std::filesystem::path& root) {
  put_file(root / "train/cat/1.png", format_png(gradient(20, 30, 3, 0)));
  put_file(root / "train/cat/deep/2.JPG", testing::jpeg_of(gradient(48, 32, 3, 0)));
  put_file(root / "train/dog/3.webp", testing::webp_of(gradient(24, 24, 3, 255)));
  put_file(root / "train/dog/4.jpeg", testing::jpeg_of(gradient(25, 25, 1)));
  put_file(root / "train/dog/notes.txt", bytes_of("no image"));
  put_file(root / "val/dog/5.png", format_png(gradient(24, 48, 3, 255)));
}

TEST(PictureFolder, IsADatasetOfItsClasses) {
  const TempFolder folder;
  write_pictures(folder.path());
  const DataOptions options{.image_size = 16};
  const auto train = open_dataset(folder.path().string(), Split::train, options);
  const auto test = open_dataset(folder.path().string(), Split::test, {.like = train->spec()});
  EXPECT_EQ(train->size(), 4);
  EXPECT_EQ(test->size(), 1);
  EXPECT_EQ(train->spec().class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(train->spec().input, (Shape{3, 16, 16}));
  EXPECT_EQ(test->spec().input, (Shape{3, 16, 16}));
  int64_t label = -1;
  const auto first = inputs_of(*train, 0, label);
  EXPECT_EQ(label, 0);
  (void)inputs_of(*train, 3, label);
  EXPECT_EQ(label, 1);
  (void)inputs_of(*test, 0, label);
  EXPECT_EQ(label, 1) << "'dog' is class 1 although the test images have no other";
  // The middle 20 x 20 of 20 x 30 remains: red goes from 5 / 30 to 25 / 30 of 255, and its mean over the
  // sixteenth column is (24.375 - 0.5) / 30, because the gradient steps at whole pixels.
  const Normalization& n = train->spec().normalization;
  const float red = first[15] * n.stddev[0] + n.mean[0];
  EXPECT_NEAR(red, 23.875 / 30, 0.01);
  // The mean over all pictures is zero, and their variance one.
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < 4; ++i)
    for (const float x : inputs_of(*train, i, label)) sum += x, squares += x * x;
  EXPECT_NEAR(sum / (4 * 768), 0, 1e-4);
  EXPECT_NEAR(squares / (4 * 768), 1, 1e-3);
}

TEST(PictureFolder, TakesItsOwnSizeWhereAllAreAlike) {
  const TempFolder folder;
  for (const char* name : {"a/1.png", "a/2.png", "b/3.png", "b/4.png"})
    put_file(folder / name, format_png(gradient(12, 18, 1)));
  EXPECT_EQ(open_dataset(folder.path().string(), Split::train)->spec().input, (Shape{1, 12, 18}));
  put_file(folder / "b/5.png", format_png(gradient(12, 19)));
  put_file(folder / "b/6.png", format_png(gradient(12, 20)));
  EXPECT_EQ(open_dataset(folder.path().string(), Split::train)->spec().input, (Shape{3, 224, 224}));
}

TEST(PictureFolder, WithoutTestPicturesKeepsATenth) {
  const TempFolder folder;
  std::set<std::string> all;
  for (int i = 0; i < 40; ++i) {
    HostArray picture(DType::u8, {2, 2, 1});
    picture.as<uint8_t>()[0] = static_cast<uint8_t>(i);
    put_file(folder / ((i < 30 ? "a/" : "b/") + std::to_string(i) + ".png"), format_png(picture));
  }
  const auto seen = [&](Split split) {
    const auto dataset = open_dataset(folder.path().string(), split);
    std::multiset<std::pair<int64_t, int>> result;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      int64_t label = 0;
      const HostArray picture = dataset->picture(i, label);
      result.emplace(label, picture.as<uint8_t>()[0]);
    }
    return result;
  };
  const auto train = seen(Split::train), test = seen(Split::test);
  EXPECT_EQ(train.size(), 36U);
  ASSERT_EQ(test.size(), 4U);
  EXPECT_EQ(std::ranges::count(test, 1, [](const auto& p) { return p.first; }), 1);
  for (const auto& picture : test) EXPECT_FALSE(train.contains(picture));
  put_file(folder / "b/99.png", format_png(gradient(2, 2, 1)));
  size_t same = 0;
  for (const auto& picture : seen(Split::test)) same += test.count(picture);
  EXPECT_GE(same, 3U) << "one image more moves few others";
}

TEST(PictureFolder, BrokenPicturesArePassedOverUpToALimit) {
  const TempFolder folder;
  for (int i = 0; i < 8; ++i)
    put_file(folder / ("train/a/" + std::to_string(i) + ".png"), format_png(gradient(4, 4, 1)));
  put_file(folder / "train/b/0.png", format_png(gradient(4, 4, 1)));
  put_file(folder / "test/b/0.png", format_png(gradient(4, 4, 1)));
  put_file(folder / "train/a/3.png", bytes_of("rubbish"));
  const auto cut = testing::jpeg_of(gradient(4, 4, 1));
  put_file(folder / "train/a/7.png", Bytes(cut).first(cut.size() / 2));
  const auto all_labels = [&](int64_t limit, int workers, std::vector<std::string>* broken) {
    const auto dataset = open_dataset(folder.path().string(), Split::train, {.most_broken = limit});
    DataLoader loader(dataset, {.batch_size = 9, .workers = workers});
    const auto batch = loader.next();
    if (broken != nullptr) *broken = dataset->broken();
    return to_doubles(batch->labels);
  };
  std::vector<std::string> broken;
  // The next example takes the place of a broken one, so the last example of class a becomes one of class b.
  const std::vector<double> expected = {0, 0, 0, 0, 0, 0, 0, 1, 1};
  EXPECT_EQ(all_labels(2, 0, &broken), expected);
  ASSERT_EQ(broken.size(), 2U);
  EXPECT_NE(broken[0].find("3.png, byte 0: "), std::string::npos) << broken[0];
  EXPECT_EQ(broken[1].find("fetch or write it again"), std::string::npos) << "said once, for all";
  EXPECT_EQ(all_labels(2, 3, nullptr), expected);
  for (const int workers : {0, 2})
    expect_error(ErrorCode::format,
                 {"2 images cannot be read", "1 are allowed", "3.png", "7.png", "--max-broken"},
                 [&] { all_labels(1, workers, nullptr); });
}

TEST(PictureFolder, PicturesOfOtherTypesCountAsBroken) {
  const TempFolder folder;
  for (const char* name : {"train/a/1.png", "train/a/2.png", "train/b/1.png", "test/a/1.png"})
    put_file(folder / name, format_png(gradient(4, 4, 1)));
  put_file(folder / "train/b/2.GIF", bytes_of("GIF89a"));
  put_file(folder / "train/b/3.svg", bytes_of("<svg/>"));
  const auto train = open_dataset(folder.path().string(), Split::train);
  EXPECT_EQ(train->size(), 4);
  int64_t label = 0;
  (void)train->picture(3, label);
  ASSERT_EQ(train->broken().size(), 1U);
  EXPECT_NE(train->broken()[0].find("2.GIF, byte 0: neither a PNG"), std::string::npos) << train->broken()[0];
}

TEST(PictureFolder, AClassWithoutPicturesIsNamed) {
  const TempFolder folder;
  put_file(folder / "train/cat/1.png", format_png(gradient(4, 4, 1)));
  put_file(folder / "train/cat/2.png", format_png(gradient(4, 4, 1)));
  put_file(folder / "train/scripts/rename.py", bytes_of("pass"));  // no class
  put_file(folder / "test/cat/1.png", format_png(gradient(4, 4, 1)));
  const std::string name = folder.path().string();
  EXPECT_EQ(open_dataset(name, Split::train)->spec().classes, 1);
  put_file(folder / "train/dog/.DS_Store", bytes_of("x"));
  put_file(folder / "test/dog/1.png", format_png(gradient(4, 4, 1)));
  for (const Split split : {Split::train, Split::test})
    expect_error(ErrorCode::value, {"1 of the 2 class folders has no images: dog", name, "remove it"},
                 [&] { open_dataset(name, split); });
  std::filesystem::remove_all(folder / "train/cat");
  expect_error(ErrorCode::value, {"1 of the 1 class folders has no images: dog"},
               [&] { open_dataset(name, Split::train); });
}

TEST(PictureFolder, ErrorsSayWhatWasSeen) {
  const TempFolder folder;
  const std::string name = folder.path().string();
  expect_error(ErrorCode::io, {"not a known kind of dataset", "it is empty", name, "train/CLASS/NAME.jpg"},
               [&] { open_dataset(name, Split::train); });
  put_file(folder / "a.jpg", bytes_of("x"));
  put_file(folder / "b.txt", bytes_of("x"));
  expect_error(ErrorCode::io, {"it holds a.jpg, b.txt"}, [&] { open_dataset(name, Split::train); });
  put_file(folder / "class/a.jpg", bytes_of("x"));
  put_file(folder / "class/b.jpg", bytes_of("x"));
  expect_error(ErrorCode::format, {"none of the images can be read", "neither a PNG", name},
               [&] { open_dataset(name, Split::train); });
  const TempFolder other;
  write_pictures(other.path());
  put_file(other / "val/bird/1.png", format_png(gradient(2, 2)));
  expect_error(ErrorCode::value, {"'bird' is none of the 2", "cat, dog", "same classes"},
               [&] { open_dataset(other.path().string(), Split::test); });
}

TEST(CifarFolder, IsOpenedWithItsNames) {
  const TempFolder folder;
  const auto batch = [](int label, int value) {
    return std::string(1, static_cast<char>(label)) + std::string(3072, static_cast<char>(value));
  };
  const std::string root = "cifar-10-batches-bin/";
  for (int i = 1; i <= 5; ++i)
    put_file(folder / (root + "data_batch_" + std::to_string(i) + ".bin"), bytes_of(batch(i, 10 * i)));
  put_file(folder / (root + "test_batch.bin"), bytes_of(batch(9, 30)));
  put_file(folder / (root + "batches.meta.txt"),
           bytes_of("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"));
  const auto train = open_dataset(folder.path().string(), Split::train);
  const auto test = open_dataset(folder.path().string(), Split::test, {.like = train->spec()});
  EXPECT_EQ(train->size(), 5);
  EXPECT_EQ(test->size(), 1);
  EXPECT_EQ(train->spec().class_names.at(9), "truck");
  EXPECT_EQ(train->spec().input, (Shape{3, 32, 32}));
  int64_t label = 0;
  EXPECT_EQ(train->picture(2, label).as<uint8_t>()[0], 30);
  EXPECT_EQ(label, 3);
  EXPECT_NEAR(inputs_of(*test, 0, label)[0], 0, 1e-5) << "30 is the mean of the training images";
  std::filesystem::remove(folder / (root + "data_batch_4.bin"));
  expect_error(ErrorCode::io, {"data_batch_4.bin is missing"},
               [&] { open_dataset(folder.path().string(), Split::train); });
}

TEST(EmnistFolder, PicturesStandUpright) {
  const TempFolder folder;
  const std::string pictures({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8});
  const std::string labels({0, 0, 8, 1, 0, 0, 0, 2, 2, 1});
  for (const char* split : {"train", "test"}) {
    put_file(folder / (std::string("emnist-letters-") + split + "-images-idx3-ubyte"), bytes_of(pictures));
    put_file(folder / (std::string("emnist-letters-") + split + "-labels-idx1-ubyte"), bytes_of(labels));
  }
  put_file(folder / "emnist-letters-mapping.txt", bytes_of("1 65 97\n2 66 98\n"));
  const auto dataset = open_dataset(folder.path().string(), Split::test);
  EXPECT_EQ(dataset->spec().class_names, (std::vector<std::string>{"A", "B"}));
  int64_t label = -1;
  EXPECT_EQ(to_doubles(dataset->picture(0, label)), (std::vector<double>{1, 3, 2, 4}));
  EXPECT_EQ(label, 1);
}

}  // namespace
}  // namespace athanor
