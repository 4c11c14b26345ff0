#include "athanor/data/open_dataset.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "athanor/base/file.h"
#include "athanor/formats/npy.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::TempFolder;

HostArray labels(const std::vector<double>& values) {
  return from_doubles(DType::i64, {static_cast<int64_t>(values.size())}, values);
}

/// A folder with four training and two test pictures in .npy files.
void write_small(const TempFolder& folder) {
  write_npy(folder / "train_images.npy",
            from_doubles(DType::u8, {4, 1, 1}, std::vector<double>{0, 0, 255, 255}));
  write_npy(folder / "train_labels.npy", labels({0, 1, 2, 1}));
  write_npy(folder / "test_images.npy", from_doubles(DType::u8, {2, 1, 1}, std::vector<double>{0, 255}));
  write_npy(folder / "test_labels.npy", labels({0, 0}));
}

TEST(OpenDataset, AFolderOfArrays) {
  const TempFolder folder;
  write_small(folder);
  const auto train = open_dataset(folder.path().string(), Split::train);
  const auto test = open_dataset(folder.path().string(), Split::test);
  EXPECT_EQ(train->size(), 4);
  EXPECT_EQ(test->size(), 2);
  EXPECT_EQ(test->spec().classes, 3) << "the classes of the training labels";
  EXPECT_EQ(test->spec().normalization.mean, std::vector<float>{0.5F});
  EXPECT_EQ(test->spec().normalization.stddev, std::vector<float>{0.5F});
  float pixel = 0;
  int64_t label = 0;
  test->read(1, &pixel, label);
  EXPECT_EQ(pixel, 1);
}

TEST(OpenDataset, ArraysAreNotScaled) {
  const TempFolder folder;
  write_small(folder);
  expect_error(ErrorCode::usage, {"only image files are scaled", "--image-size"},
               [&] { open_dataset(folder.path().string(), Split::train, {.image_size = 16}); });
}

TEST(OpenDataset, AFolderOfIdxFiles) {
  const TempFolder folder;
  const std::string image({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 5, 6});
  const std::string label({0, 0, 8, 1, 0, 0, 0, 1, 3});
  write_file_atomically(folder / "train-images-idx3-ubyte", image);
  write_file_atomically(folder / "train-labels-idx1-ubyte", label);
  write_file_atomically(folder / "t10k-images.idx3-ubyte", image);
  write_file_atomically(folder / "t10k-labels.idx1-ubyte", label);
  EXPECT_EQ(open_dataset(folder.path().string(), Split::test)->spec().input, (Shape{1, 1, 2}));
  EXPECT_EQ(open_dataset(folder.path().string(), Split::train)->spec().classes, 4);
}

TEST(OpenDataset, ErrorsNameTheFile) {
  const TempFolder folder;
  const auto open = [&] { open_dataset(folder.path().string(), Split::test); };
  expect_error(ErrorCode::io, {"not a known kind of dataset", "it is empty", folder.path().string()}, open);
  write_small(folder);
  std::filesystem::remove(folder / "train_labels.npy");
  expect_error(ErrorCode::io,
               {"training labels are missing", "train-labels-idx1-ubyte.gz", folder.path().string()}, open);
  write_small(folder);
  write_npy(folder / "test_labels.npy", labels({0, 3}));
  expect_error(ErrorCode::value, {"label 3 of example 1", "test_labels.npy"}, open);
  write_npy(folder / "test_labels.npy", labels({0}));
  expect_error(ErrorCode::shape, {"2 images but 1 labels", "test_images.npy"}, open);
  write_npy(folder / "train_labels.npy", labels({0, 1, 2, 1e9}));
  expect_error(ErrorCode::value, {"label 1000000000", "train_labels.npy"}, open);
  write_file_atomically(folder / "train_labels.npy", "rubbish");
  expect_error(ErrorCode::format, {"train_labels.npy, byte 0"}, open);
}

TEST(OpenDataset, LabelsWithWideGapsAreRefused) {
  const TempFolder folder;
  const auto open = [&] { return open_dataset(folder.path().string(), Split::train)->spec().classes; };
  const auto give = [&](int64_t pictures, const std::vector<double>& values) {
    write_npy(folder / "train_images.npy", HostArray(DType::u8, {pictures, 1, 1}));
    std::vector<double> all;
    for (int64_t i = 0; i < pictures; ++i) all.push_back(values[static_cast<size_t>(i) % values.size()]);
    write_npy(folder / "train_labels.npy", labels(all));
  };
  give(30, {0, 1000, 2000});
  expect_error(ErrorCode::value,
               {"of the 2001 classes up to label 2000, 3 have images (0, 1000, 2000)", "train_labels.npy",
                "np.unique"},
               open);
  give(30, {7, 1, 100, 40, 13, 77, 90});
  expect_error(ErrorCode::value, {"101 classes", "7 have images (1, 7, 13, 40, 77, ...)"}, open);
  // Some classes without pictures are accepted, and so are few pictures of many classes.
  give(26 * 4,
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26});
  EXPECT_EQ(open(), 27);
  give(4, {0, 3, 9, 9});
  EXPECT_EQ(open(), 10);
  give(4, {0, -1});
  expect_error(ErrorCode::value, {"label -1 of example 1", "train_labels.npy"}, open);
}

TEST(OpenDataset, AdvisesOnlyWhatIsTaken) {
  const TempFolder folder;
  const auto open = [&] { open_dataset(folder.path().string(), Split::train); };
  // An array of four elements, with all bytes 0xff.
  const auto write = [&](const char* file, const std::string& type, const std::string& shape) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    const auto width = static_cast<size_t>(type.back() - '0');
    write_small(folder);
    write_file_atomically(folder / file, std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" +
                                             std::string(4 * width, '\xff'));
  };
  for (const char* type : {"<c8", "<U2", "<u8"}) {
    write("train_images.npy", type, "(4, 1, 1)");
    expect_error(ErrorCode::format, {"images.astype('uint8')", "train_images.npy"}, open);
    write("train_labels.npy", type, "(4,)");
    expect_error(ErrorCode::format, {"labels.astype('int64')", "train_labels.npy"}, open);
  }
  for (const char* type : {"<f4", "<i8", "|b1"}) {
    write("train_images.npy", type, "(4, 1, 1)");
    expect_error(ErrorCode::dtype, {"images.astype('uint8')", "train_images.npy"}, open);
  }
  for (const char* type : {"<f8", "|b1"}) {
    write("train_labels.npy", type, "(4,)");
    expect_error(ErrorCode::dtype, {"labels.astype('int64')", "train_labels.npy"}, open);
  }
}

TEST(OpenDataset, IsFoundFromAnyFolder) {
  EXPECT_EQ(from_any_folder("fashion-mnist"), "fashion-mnist");
  EXPECT_EQ(from_any_folder("no/such/folder"), "no/such/folder");
  const TempFolder folder;
  std::filesystem::create_directories(folder / "digits");
  const std::string whole = (folder / "digits").string();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const char* name : {"digits", "./digits", "digits/", "digits/../digits//"})
    EXPECT_EQ(std::filesystem::canonical(from_any_folder(name)), std::filesystem::canonical(whole)) << name;
  EXPECT_TRUE(std::filesystem::path(from_any_folder("digits")).is_absolute());
  std::filesystem::current_path(before);
  EXPECT_EQ(dataset_title(whole + "/"), "digits");
  EXPECT_EQ(dataset_title("mnist"), "mnist");
}

TEST(OpenDataset, UnknownNames) {
  expect_error(ErrorCode::name, {"'fashon-mnist'", "Did you mean 'fashion-mnist'?"},
               [] { open_dataset("fashon-mnist", Split::train); });
  expect_error(ErrorCode::name, {"'imagenet-22k'", "Known: fashion-mnist, mnist"},
               [] { open_dataset("imagenet-22k", Split::train); });
  expect_error(ErrorCode::io, {"does not exist", "no/such/folder"},
               [] { open_dataset("no/such/folder", Split::train); });
  expect_error(ErrorCode::io, {"neither a folder nor a file", "/dev/zero"},
               [] { open_dataset("/dev/zero", Split::train); });
}

TEST(OpenDataset, ANamedDatasetComesFromAthanorDataFirst) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "mnist");
  ASSERT_EQ(setenv("ATHANOR_DATA", folder.path().c_str(), 1), 0);
  expect_error(ErrorCode::io, {"missing", (folder / "mnist").string(), "apt install dataset-fashion-mnist"},
               [] { open_dataset("mnist", Split::train); });
  unsetenv("ATHANOR_DATA");
}

TEST(OpenDataset, AMissingNamedDatasetSaysHowToGetIt) {
  if (std::filesystem::exists("/usr/share/datasets/mnist") || std::filesystem::exists("data/mnist"))
    GTEST_SKIP() << "mnist is installed";
  expect_error(ErrorCode::io, {"'mnist' is not installed", "/usr/share/datasets/mnist", "./data/mnist"},
               [] { open_dataset("mnist", Split::train); });
}

TEST(OpenDataset, AFileWithoutZeroBytesIsText) {
  const testing::TempFolder folder;
  const auto kind = [&](const std::string& name, const std::string& content) {
    write_file_atomically(folder / name, content);
    return kind_of_data((folder / name).string());
  };
  for (const char* name : {"a.txt", "a.md", "LICENSE"})
    EXPECT_EQ(kind(name, "To be"), DataKind::text) << name;
  EXPECT_EQ(kind("b.txt", std::string("a\0b", 3)), DataKind::images);
  EXPECT_EQ(kind("c.csv", "a,b"), DataKind::table);
  EXPECT_EQ(kind("d.png", "rubbish"), DataKind::images);
}

TEST(OpenDataset, FashionMnist) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto train = open_dataset("fashion-mnist", Split::train);
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(train->spec().input, (Shape{1, 28, 28}));
  EXPECT_EQ(train->spec().classes, 10);
  EXPECT_EQ(train->spec().class_names[9], "Ankle boot");
  // The mean and standard deviation that the literature uses.
  EXPECT_NEAR(train->spec().normalization.mean[0], 0.2860, 5e-5);
  EXPECT_NEAR(train->spec().normalization.stddev[0], 0.3530, 5e-5);
  std::vector<float> image(784);
  int64_t label = -1;
  train->read(0, image.data(), label);
  EXPECT_EQ(label, 9);
  const auto test = open_dataset("fashion-mnist", Split::test, {.like = train->spec()});
  EXPECT_EQ(test->size(), 10000);
}

}  // namespace
}  // namespace athanor
