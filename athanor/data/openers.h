// The kinds of datasets that open_dataset() knows; used only in this folder.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/data/data_options.h"
#include "athanor/data/dataset.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// An array and the file it is from.
struct FileArray {
  std::filesystem::path path;
  HostArray array;
};

/// Reads the images or the labels of a split. Throws Error(io) if they are missing.
using ReadArray = std::function<FileArray(Split split, bool labels)>;

/// A dataset with two arrays for each split. Without names, the classes are those of the training labels.
std::shared_ptr<const Dataset> open_arrays(const ReadArray& read, Split split,
                                           std::vector<std::string> class_names, const DataOptions& options);

/// The same with numbers as targets: inputs are images, or rows of numbers.
std::shared_ptr<const Dataset> open_number_arrays(const ReadArray& read, Split split,
                                                  const DataOptions& options);

/// Throws Error(usage) if an image size is given for a dataset whose examples are not scaled.
void refuse_image_size(const DataOptions& options);

/// MNIST's four IDX files, or four .npy files. A missing file's error advises `how_to_get`.
ReadArray array_files(const std::filesystem::path& folder, std::string_view how_to_get);
bool has_array_files(const std::filesystem::path& folder);

/// A part of EMNIST ("emnist-balanced", ...): IDX files whose images lie on their side, and a list of
/// classes.
std::shared_ptr<const Dataset> open_emnist(const std::filesystem::path& folder, const std::string& part,
                                           Split split, const DataOptions& options);
/// The parts whose files are in `folder`.
std::vector<std::string> emnist_parts(const std::filesystem::path& folder);

/// The folder with the files of CIFAR-10's or CIFAR-100's binary version: `folder`, or the folder of their
/// archive below it.
std::optional<std::filesystem::path> find_cifar(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_cifar(const std::filesystem::path& folder, Split split,
                                          const DataOptions& options);

/// CLASS/NAME.jpg, in train/ and test/ (or val/) or, without these, in the folder itself.
bool is_picture_folder(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_picture_folder(const std::filesystem::path& folder, Split split,
                                                   const DataOptions& options);
/// Arrays in one file: train_images, train_labels, test_images, test_labels (or x_train, ...), or images and
/// labels, of which a tenth is kept for testing.
std::shared_ptr<const Dataset> open_npz(const std::filesystem::path& file, Split split,
                                        const DataOptions& options);
std::shared_ptr<const Dataset> open_safetensors(const std::filesystem::path& file, Split split,
                                                const DataOptions& options);

/// Archives of WebDataset: a folder of them, one of them, or several as "train-{000..012}.tar". Those with
/// "test" or "val" in their name hold the test images.
bool has_shards(const std::filesystem::path& path);
std::shared_ptr<const Dataset> open_webdataset(const std::filesystem::path& path, Split split,
                                               const DataOptions& options);

/// A table: a .csv or .tsv file, or a folder with train.csv and test.csv.
bool has_table(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_csv(const std::filesystem::path& path, Split split,
                                        const DataOptions& options);

/// images/NAME.jpg and masks/NAME.png, in train/ and test/ (or val/) or, without these, in the folder itself.
bool is_mask_folder(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_mask_folder(const std::filesystem::path& folder, Split split,
                                                const DataOptions& options);

/// Whether a file's name has the ending of an image. Images of types that are not read (GIF, BMP, TIFF, ...)
/// count as broken when they are opened, so that they are named.
bool is_picture_name(std::string_view name);
/// The same for PNG, JPEG and WebP alone.
bool is_readable_picture_name(std::string_view name);

}  // namespace athanor
