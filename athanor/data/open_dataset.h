// Datasets by name or path.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/data_options.h"
#include "athanor/data/dataset.h"

namespace athanor {

/// Opens "fashion-mnist", "mnist", "cifar-10", ... (see dataset_names()), a file, or a folder ("./mnist" for
/// a folder of that name).
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
/// - WebDataset's .tar files; train.csv and test.csv, tables of numbers and categories with a column for the
///   class (called label, class, target or y, or the last).
///
/// A file may be an .npz or .safetensors with such arrays, a .tar (or "train-{000..012}.tar"), or a .csv.
///
/// Both splits are normalised by the training images and have their classes, unless DataOptions::like is
/// given.
///
/// Throws Error(name) for an unknown name; Error(io) for missing files and for anything that is no dataset,
/// with what was found and what is needed; Error(format) for corrupt files; and what ArrayDataset throws,
/// naming the file.
std::shared_ptr<const Dataset> open_dataset(const std::string& name_or_folder, Split split,
                                            const DataOptions& options = {});

/// A name that opens the same dataset from any working folder: the name of a named dataset, the absolute path
/// of a folder or file. Anything else stays as it is.
std::string from_any_folder(const std::string& name_or_folder);

/// The kind of examples, by the name, path or beginning of a file. `images`: images, or not known.
enum class DataKind { images, masks, table, text };
DataKind kind_of_data(const std::string& name_or_folder);

/// "fashion-mnist", ...
std::vector<std::string> dataset_names();

/// The dataset's name in titles: its own, or that of its folder.
std::string dataset_title(const std::string& name_or_folder);

}  // namespace athanor
