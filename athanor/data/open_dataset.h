// Datasets by name or folder.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/data/dataset.h"

namespace athanor {

enum class Split { train, test };

/// Opens "fashion-mnist", "mnist", or a folder ("./mnist" for a folder called so).
///
/// A named dataset is looked for in $ATHANOR_DATA/NAME, ./data/NAME and /usr/share/datasets/NAME, the first
/// that exists. A folder holds the four IDX files of MNIST (train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte; plain or .gz) or train_images.npy, train_labels.npy,
/// test_images.npy, test_labels.npy, with arrays as ArrayDataset takes them.
///
/// Both splits are normalised by the training pictures, unless `normalization` is given (as stored with a
/// model), and have the classes of the training labels.
///
/// Throws Error(name) for an unknown name, Error(io) for missing files, saying where they were looked for and
/// how to get them, Error(format) for corrupt ones, and what ArrayDataset throws, naming the file.
std::shared_ptr<const Dataset> open_dataset(const std::string& name_or_folder, Split split,
                                            const std::optional<Normalization>& normalization = {});

/// What opens the same dataset from any working folder: the name of a named one, the absolute path of a
/// folder. Anything else stays as it is.
std::string from_any_folder(const std::string& name_or_folder);

/// "fashion-mnist", ...
std::vector<std::string> dataset_names();

/// What a dataset is called in titles: its name, or that of its folder.
std::string dataset_title(const std::string& name_or_folder);

}  // namespace athanor
