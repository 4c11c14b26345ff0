#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/array_dataset.h"
#include "athanor/data/openers.h"
#include "athanor/formats/idx.h"
#include "athanor/formats/npy.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr const char* renumber_hint =
    "Number the classes from 0 on, in all files alike: np.unique(labels, return_inverse=True)[1]";

/// More classes than any image dataset has: a number from this one up is no label.
constexpr int64_t most_classes = 65536;

/// The names that a file may have: as in MNIST's archive, as some tools unpack it, or as NumPy arrays.
std::vector<std::string> file_names(Split split, bool labels) {
  const std::string idx =
      fmt::format("{}-{}", split == Split::train ? "train" : "t10k", labels ? "labels" : "images");
  const std::string_view kind = labels ? "idx1-ubyte" : "idx3-ubyte";
  return {fmt::format("{}-{}", idx, kind),
          fmt::format("{}-{}.gz", idx, kind),
          fmt::format("{}.{}", idx, kind),
          fmt::format("{}.{}.gz", idx, kind),
          fmt::format("{}_{}.npy", split == Split::train ? "train" : "test", labels ? "labels" : "images"),
          fmt::format("{}_{}.npy", split == Split::train ? "train" : "test", labels ? "targets" : "inputs")};
}

/// Changes the hint of errors: the reader of NumPy files knows more element types than a dataset takes, so
/// its advice would be refused next.
HostArray read_numbers(const fs::path& path, bool labels) {
  try {
    return read_npy(path);
  } catch (const Error& error) {
    if (error.hint().find("astype") == std::string::npos) throw;
    throw Error(error.code(), error.problem(), error.where(), labels ? labels_hint : pictures_hint);
  }
}

/// The first of the files that exists.
std::optional<FileArray> first_array(const fs::path& folder, const std::vector<std::string>& names,
                                     bool labels) {
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    std::error_code ignored;
    if (fs::exists(path, ignored))
      return FileArray{path, path.extension() == ".npy" ? read_numbers(path, labels) : read_idx(path)};
  }
  return std::nullopt;
}

/// The first labels: "0, 1000, 2000" or "3, 17, 20, ...".
std::string show_labels(const std::set<double>& labels) {
  constexpr size_t shown = 5;
  std::vector<std::string> text;
  for (const double label : labels)
    if (text.size() < shown) text.push_back(fmt::format("{:.0f}", label));
  return join(text) + (labels.size() > shown ? ", ..." : "");
}

/// 1 + the largest of `labels`; throws if that is not plausible.
int64_t count_classes(const FileArray& labels) {
  if (!is_int(labels.array.dtype)) return 0;  // refused with other misfits
  const std::vector<double> values = to_doubles(labels.array);
  const std::set<double> found(values.begin(), values.end());
  if (found.empty()) return 0;
  const double largest = *found.rbegin();
  if (largest >= static_cast<double>(most_classes))
    throw Error(
        ErrorCode::value,
        fmt::format("label {:.0f} is out of range: at most {} classes are supported", largest, most_classes),
        labels.path.string(), renumber_hint);
  // A class without an image is nothing unusual. But if each label occurs twice or more on average, random
  // labels would miss fewer than half of the classes (exp(-2) is a seventh).
  const auto different = static_cast<double>(found.size());
  if (*found.begin() >= 0 && 2 * different < largest + 1 &&
      2 * different <= static_cast<double>(values.size()))
    throw Error(
        ErrorCode::value,
        fmt::format("the labels are not numbered one by one: of the {:.0f} classes up to label {:.0f}, "
                    "{} have images ({})",
                    largest + 1, largest, found.size(), show_labels(found)),
        labels.path.string(), renumber_hint);
  return static_cast<int64_t>(largest) + 1;
}

Normalization training_normalization(const ReadArray& read) {
  const FileArray images = read(Split::train, false);
  try {
    return measure_normalization(images.array);
  } catch (const Error& error) {
    throw error.at(images.path.string());
  }
}

}  // namespace

void refuse_image_size(const DataOptions& options) {
  if (options.image_size > 0)
    throw Error(ErrorCode::usage, "only image files are scaled, and this dataset has none", "--image-size",
                "Leave it out");
}

bool has_array_files(const fs::path& folder) {
  for (const Split split : {Split::train, Split::test})
    for (const bool labels : {false, true})
      for (const std::string& name : file_names(split, labels)) {
        std::error_code ignored;
        if (fs::exists(folder / name, ignored)) return true;
      }
  return false;
}

ReadArray array_files(const fs::path& folder, std::string_view how_to_get) {
  return [folder, hint = std::string(how_to_get)](Split split, bool labels) {
    const std::vector<std::string> names = file_names(split, labels);
    if (auto found = first_array(folder, names, labels)) return std::move(*found);
    throw Error(ErrorCode::io,
                fmt::format("the {} {} are missing: none of the files {} is there",
                            split == Split::train ? "training" : "test", labels ? "labels" : "images",
                            fmt::join(names, ", ")),
                folder.string(), hint);
  };
}

std::shared_ptr<const Dataset> open_arrays(const ReadArray& read, Split split,
                                           std::vector<std::string> class_names, const DataOptions& data) {
  refuse_image_size(data);
  ArrayDatasetOptions options;
  if (data.like) {
    options.normalization = data.like->normalization;
    options.classes = data.like->classes;
    if (class_names.empty()) class_names = data.like->class_names;
  }
  if (!class_names.empty())
    options.classes = static_cast<int64_t>(class_names.size());
  else if (options.classes == 0)
    options.classes = count_classes(read(Split::train, true));
  options.class_names = std::move(class_names);
  if (split != Split::train && !options.normalization) options.normalization = training_normalization(read);
  FileArray images = read(split, false);
  const FileArray labels = read(split, true);
  try {
    return std::make_shared<ArrayDataset>(std::move(images.array), labels.array, std::move(options));
  } catch (const Error& error) {
    throw error.at(fmt::format("{} and {}", images.path.string(), labels.path.filename().string()));
  }
}

}  // namespace athanor
