// Datasets in one file or in several archives: .npz, .safetensors, .csv, WebDataset.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "athanor/data/open_dataset.h"
#include "athanor/formats/npy.h"
#include "athanor/formats/safetensors.h"
#include "tests/formats/corpus.h"
#include "tests/support/expect_error.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::put_file;
using testing::TempFolder;

/// An example's values before normalisation would be picture(), so this is read().
std::vector<float> inputs(const Dataset& dataset, int64_t index, int64_t* label = nullptr) {
  std::vector<float> result(static_cast<size_t>(dataset.spec().input.size()));
  int64_t ignored = 0;
  dataset.read(index, result.data(), label != nullptr ? *label : ignored);
  return result;
}

HostArray numbered(int64_t count) {
  HostArray images(DType::u8, {count, 2, 2});
  for (int64_t i = 0; i < count; ++i)
    images.as<uint8_t>()[static_cast<size_t>(4 * i)] = static_cast<uint8_t>(i);
  return images;
}

TEST(OpenFile, ArraysWithTwoSplitsInSafetensors) {
  const TempFolder folder;
  const std::string file = (folder / "a.safetensors").string();
  SafeTensors content;
  content.tensors = {{"x_train", numbered(3)},
                     {"y_train", from_doubles(DType::i64, {3, 1}, std::vector<double>{0, 1, 1})},
                     {"x_test", numbered(2)},
                     {"y_test", from_doubles(DType::u8, {2}, std::vector<double>{1, 0})}};
  write_safetensors(file, content);
  EXPECT_EQ(open_dataset(file, Split::train)->size(), 3);
  const auto test = open_dataset(file, Split::test);
  int64_t label = -1;
  EXPECT_EQ(test->picture(0, label).shape, (Shape{2, 2, 1}));
  EXPECT_EQ(label, 1);
  content.tensors.erase("y_test");
  write_safetensors(file, content);
  expect_error(ErrorCode::io, {"no array test_labels, or y_test", "x_train [3, 2, 2]", "a.safetensors"},
               [&] { open_dataset(file, Split::test); });
}

TEST(OpenFile, OneSplitKeepsATenth) {
  const TempFolder folder;
  const std::string file = (folder / "a.safetensors").string();
  std::vector<double> labels;
  for (int i = 0; i < 40; ++i) labels.push_back(i % 2);
  write_safetensors(file,
                    {{{"images", numbered(40)}, {"labels", from_doubles(DType::i32, {40}, labels)}}, {}});
  const auto train = open_dataset(file, Split::train), test = open_dataset(file, Split::test);
  EXPECT_EQ(train->size(), 36);
  EXPECT_EQ(test->size(), 4);
  std::set<int> seen;
  for (const auto& dataset : {train, test})
    for (int64_t i = 0; i < dataset->size(); ++i) {
      int64_t label = 0;
      const int number = dataset->picture(i, label).as<uint8_t>()[0];
      EXPECT_EQ(label, number % 2);
      seen.insert(number);
    }
  EXPECT_EQ(seen.size(), 40U) << "each is in one split";
}

TEST(OpenFile, Npz) {
  const TempFolder folder;
  // NumPy wrote two pictures and two labels: too few to set some of each class aside for testing.
  std::filesystem::copy(testing::corpus_path("npz/deflated"), folder / "a.npz");
  const auto train = open_dataset((folder / "a.npz").string(), Split::train);
  EXPECT_EQ(train->size(), 2);
  EXPECT_EQ(train->spec().input, (Shape{1, 3, 4}));
  int64_t label = 0;
  EXPECT_EQ(train->picture(1, label).as<uint8_t>()[0], 12);
  EXPECT_EQ(label, 0);
}

TEST(OpenFile, OtherFilesSayWhatWouldBeRight) {
  const TempFolder folder;
  put_file(folder / "a.txt", bytes_of("x"));
  write_npy(folder / "a.npy", numbered(2));
  expect_error(ErrorCode::io, {"'.txt' is not a kind of dataset file", ".npz"},
               [&] { open_dataset((folder / "a.txt").string(), Split::train); });
  expect_error(ErrorCode::io, {"one array is not a dataset", "train_images.npy", folder.path().string()},
               [&] { open_dataset((folder / "a.npy").string(), Split::train); });
}

// NumPy's values: (2, 4, 4, 6) has mean 4 and standard deviation sqrt(2).
constexpr const char* train_table =
    "size,color,weight,class\n2,red,1,cat\n4,blue,,dog\n4,red,3,cat\n6,NA,2,dog\n";

TEST(OpenCsv, EncodesNumbersCategoriesAndWhatIsMissing) {
  const TempFolder folder;
  put_file(folder / "train.csv", bytes_of(train_table));
  put_file(folder / "test.csv", bytes_of("color,class,weight,size\ngreen,dog,,8\nblue,cat,2,4\n"));
  const auto train = open_dataset(folder.path().string(), Split::train);
  const auto test = open_dataset(folder.path().string(), Split::test, {.like = train->spec()});
  EXPECT_EQ(train->spec().input, (Shape{1, 1, 5})) << "size; blue, red; weight, and whether it is missing";
  EXPECT_EQ(train->spec().class_names, (std::vector<std::string>{"cat", "dog"}));
  const auto expect_row = [](const std::vector<float>& made, const std::vector<double>& expected) {
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-6) << i;
  };
  const double root = std::sqrt(2.0), third = std::sqrt(2.0 / 3);
  int64_t label = -1;
  expect_row(inputs(*train, 0, &label), {-2 / root, 0, 1, -1 / third, 0});
  EXPECT_EQ(label, 0);
  expect_row(inputs(*train, 1, &label), {0, 1, 0, 0, 1});
  EXPECT_EQ(label, 1);
  expect_row(inputs(*train, 3), {2 / root, 0, 0, 0, 0});
  // Columns are found by name and normalised like the training rows; a new category is none of the known.
  expect_row(inputs(*test, 0, &label), {4 / root, 0, 0, 0, 1});
  EXPECT_EQ(label, 1);
  expect_row(inputs(*test, 1), {0, 1, 0, 0, 0});
  expect_error(ErrorCode::usage, {"not images"}, [&] { train->picture(0, label); });
}

TEST(OpenCsv, ErrorsNameColumnAndExample) {
  const TempFolder folder;
  const auto open = [&](const std::string& test) {
    put_file(folder / "train.csv", bytes_of(train_table));
    put_file(folder / "test.csv", bytes_of(test));
    const auto train = open_dataset(folder.path().string(), Split::train);
    return [&folder, spec = train->spec()] {
      open_dataset(folder.path().string(), Split::test, {.like = spec});
    };
  };
  expect_error(ErrorCode::value, {"column 'weight' is missing", "test.csv"},
               open("size,color,class\n1,red,cat\n"));
  expect_error(ErrorCode::value, {"'heavy' is not a number", "'weight'", "test.csv, example 1"},
               open("size,color,weight,class\n1,red,heavy,cat\n"));
  expect_error(ErrorCode::value, {"class 'bird' was not among those of training: cat, dog"},
               open("size,color,weight,class\n1,red,2,bird\n"));
}

// For example, the last row of a file that was cut off.
TEST(OpenCsv, ARowWithoutAClassIsAnError) {
  const TempFolder folder;
  put_file(folder / "train.csv", bytes_of("x,label\n1,a\n2,b\n3,\n"));
  expect_error(ErrorCode::value, {"class is missing", "'label' is empty", "train.csv, example 3"},
               [&] { open_dataset(folder.path().string(), Split::train); });
}

TEST(OpenCsv, OneTableKeepsATenth) {
  const TempFolder folder;
  std::string text = "x,y\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("{},{}\n", i, i % 3);
  put_file(folder / "a.csv", bytes_of(text));
  const std::string file = (folder / "a.csv").string();
  EXPECT_EQ(open_dataset(file, Split::train)->size(), 54);
  EXPECT_EQ(open_dataset(file, Split::test)->size(), 6);
  EXPECT_TRUE(std::filesystem::path(from_any_folder(file)).is_absolute());
}

/// A member of a ustar archive.
std::string tar_member(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(124, 12, fmt::format("{:011o}", content.size()) + '\0');
  header[156] = '0';
  header.replace(257, 6, std::string("ustar\0", 6));
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

void write_shard(const std::filesystem::path& path, int first, int count,
                 const std::vector<std::string>& labels) {
  std::string tar;
  for (int i = first; i < first + count; ++i) {
    HostArray picture(DType::u8, {2, 2, 1});
    picture.as<uint8_t>()[0] = static_cast<uint8_t>(i);
    const auto png = format_png(picture);
    tar += tar_member(fmt::format("{:03}.cls", i), labels[static_cast<size_t>(i) % labels.size()] + "\n");
    tar += tar_member(fmt::format("{:03}.png", i), {reinterpret_cast<const char*>(png.data()), png.size()});
    tar += tar_member(fmt::format("{:03}.json", i), "{}");
  }
  put_file(path, bytes_of(tar + std::string(1024, '\0')));
}

TEST(WebDataset, OfNumberedAndOfNamedClasses) {
  const TempFolder folder;
  write_shard(folder / "train-0.tar", 0, 4, {"0", "2"});
  write_shard(folder / "train-1.tar", 4, 2, {"0", "2"});
  write_shard(folder / "val-0.tar", 6, 1, {"2"});
  const auto train = open_dataset(folder.path().string(), Split::train);
  EXPECT_EQ(train->size(), 6);
  EXPECT_EQ(train->spec().classes, 3);
  int64_t label = -1;
  EXPECT_EQ(train->picture(5, label).as<uint8_t>()[0], 5);
  EXPECT_EQ(label, 2);
  const auto test = open_dataset(folder.path().string(), Split::test, {.like = train->spec()});
  EXPECT_EQ(test->picture(0, label).as<uint8_t>()[0], 6);
  EXPECT_EQ(test->spec().classes, 3);

  const TempFolder named;
  for (int shard = 0; shard < 3; ++shard)
    write_shard(named / fmt::format("x-{:03}.tar", shard), 10 * shard, 10, {"dog", "cat"});
  const std::string braces = (named / "x-{000..001}.tar").string();
  const auto two = open_dataset(braces, Split::train);
  EXPECT_EQ(two->size(), 18);
  EXPECT_EQ(open_dataset(braces, Split::test)->size(), 2);
  EXPECT_EQ(two->spec().class_names, (std::vector<std::string>{"cat", "dog"}));
  const int number = two->picture(0, label).as<uint8_t>()[0];
  EXPECT_EQ(label, number % 2 == 0 ? 1 : 0);
}

TEST(WebDataset, PicturesOfOtherTypesCountAsBroken) {
  const TempFolder folder;
  const auto png = format_png(HostArray(DType::u8, {2, 2, 1}));
  const std::string image(reinterpret_cast<const char*>(png.data()), png.size());
  std::string tar;
  for (const char* key : {"a", "b", "c"}) tar += tar_member(std::string(key) + ".cls", "0");
  tar += tar_member("a.png", image) + tar_member("a.tif", "depth") + tar_member("b.png", image) +
         tar_member("c.gif", "GIF89a") + tar_member("d.gif", "GIF89a");
  put_file(folder / "train-0.tar", bytes_of(tar + std::string(1024, '\0')));
  write_shard(folder / "val-0.tar", 6, 1, {"0"});
  const auto train = open_dataset(folder.path().string(), Split::train);
  EXPECT_EQ(train->size(), 3);  // a.tif is beside a.png, and d.gif has no class
  int64_t label = 0;
  for (int64_t i = 0; i < 3; ++i) (void)train->picture(i, label);
  ASSERT_EQ(train->broken().size(), 1U);
  EXPECT_NE(train->broken()[0].find("c.gif"), std::string::npos) << train->broken()[0];
}

TEST(WebDataset, ErrorsNameTheExample) {
  const TempFolder folder;
  put_file(folder / "a.tar", bytes_of(tar_member("x/1.png", "p") + std::string(1024, '\0')));
  expect_error(ErrorCode::format, {"'x/1.png' has no class: x/1.cls is missing", "a.tar"},
               [&] { open_dataset((folder / "a.tar").string(), Split::train); });
  put_file(folder / "a.tar", bytes_of(std::string(1024, '\0')));
  expect_error(ErrorCode::io, {"no training images", "KEY.cls"},
               [&] { open_dataset((folder / "a.tar").string(), Split::train); });
}

}  // namespace
}  // namespace athanor
