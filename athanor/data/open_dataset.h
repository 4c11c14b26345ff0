// Datasets by name or path.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/data_options.h"
#include "athanor/data/dataset.h"

namespace athanor {

/// Opens "fashion-mnist", "mnist", "cifar-10", ... (see dataset_names()), a file, or a folder ("./mnist" for
/// a folder called so).
///
/// A named dataset is looked for in $ATHANOR_DATA/NAME, ./data/NAME and /usr/share/datasets/NAME, the first
/// that exists. A folder may hold:
/// - the four IDX files of MNIST (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,
///   t10k-labels-idx1-ubyte; plain or .gz), or those of a part of EMNIST;
/// - train_images.npy, train_labels.npy, test_images.npy, test_labels.npy, with arrays as ArrayDataset takes
///   them;
/// - the binary files of CIFAR-10 or CIFAR-100, or the folder of their archive;
/// - PNG, JPEG and WebP files as train/CLASS/NAME.jpg and test/CLASS/NAME.jpg (or val/). Without a test
///   folder, or without both, a tenth of each class is kept for testing;
/// - WebDataset's .tar files; train.csv and test.csv, tables of numbers and categories with a column of the
///   class (called label, class, target or y, or the last).
///
/// A file may be an .npz or .safetensors with such arrays, a .tar (or "train-{000..012}.tar"), or a .csv.
///
/// Both splits are normalised by the training images and have their classes, unless the options say what a
/// model was trained on.
///
/// Throws Error(name) for an unknown name, Error(io) for missing files and for what is no dataset, saying
/// what was there and what would be right, Error(format) for corrupt ones, and what ArrayDataset throws,
/// naming the file.
std::shared_ptr<const Dataset> open_dataset(const std::string& name_or_folder, Split split,
                                            const DataOptions& options = {});

/// What opens the same dataset from any working folder: the name of a named one, the absolute path of a
/// folder or file. Anything else stays as it is.
std::string from_any_folder(const std::string& name_or_folder);

/// What the name, path or beginning of a file says that the examples are. `images`: they, or not known.
enum class DataKind { images, masks, table, text };
DataKind kind_of_data(const std::string& name_or_folder);

/// "fashion-mnist", ...
std::vector<std::string> dataset_names();

/// What a dataset is called in titles: its name, or that of its folder.
std::string dataset_title(const std::string& name_or_folder);

}  // namespace athanor
