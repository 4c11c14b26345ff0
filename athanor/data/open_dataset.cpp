#include "athanor/data/open_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/array_dataset.h"
#include "athanor/formats/idx.h"
#include "athanor/formats/npy.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

struct NamedDataset {
  std::string_view name;
  std::vector<std::string> class_names;
  std::string_view how_to_get;
};

const std::vector<NamedDataset>& named_datasets() {
  static const std::vector<NamedDataset> datasets = {
      {"fashion-mnist",
       {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot"},
       "Install it with 'apt install dataset-fashion-mnist'"},
      {"mnist",
       {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
       "Put its four IDX files into ./data/mnist, or use fashion-mnist ('apt install "
       "dataset-fashion-mnist')"},
  };
  return datasets;
}

constexpr const char* renumber_hint =
    "Number the classes from 0 on, in all files alike: np.unique(labels, return_inverse=True)[1]";

/// More classes than any picture dataset has: a label above it is no label.
constexpr int64_t most_classes = 65536;

std::vector<fs::path> places_of(std::string_view name) {
  std::vector<fs::path> places;
  if (const char* root = std::getenv("ATHANOR_DATA"); root != nullptr && *root != '\0')
    places.push_back(fs::path(root) / name);
  places.push_back(fs::path("data") / name);
  places.push_back(fs::path("/usr/share/datasets") / name);
  return places;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path without_end_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

/// The names that a file may have: as in MNIST's archive, as some tools unpack it, and as NumPy arrays.
std::vector<std::string> file_names(Split split, bool labels) {
  const std::string idx =
      fmt::format("{}-{}", split == Split::train ? "train" : "t10k", labels ? "labels" : "images");
  const std::string_view kind = labels ? "idx1-ubyte" : "idx3-ubyte";
  return {fmt::format("{}-{}", idx, kind), fmt::format("{}-{}.gz", idx, kind),
          fmt::format("{}.{}", idx, kind), fmt::format("{}.{}.gz", idx, kind),
          fmt::format("{}_{}.npy", split == Split::train ? "train" : "test", labels ? "labels" : "images")};
}

/// An array and the file it is from.
struct FileArray {
  fs::path path;
  HostArray array;
};

/// The reader of NumPy files knows more element types than are of use here: what it advises would be refused
/// next.
HostArray read_numbers(const fs::path& path, bool labels) {
  try {
    return read_npy(path);
  } catch (const Error& error) {
    if (error.hint().find("astype") == std::string::npos) throw;
    throw Error(error.code(), error.problem(), error.where(), labels ? labels_hint : pictures_hint);
  }
}

FileArray read_array(const fs::path& folder, Split split, bool labels, std::string_view how_to_get) {
  const std::vector<std::string> names = file_names(split, labels);
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    std::error_code ignored;
    if (fs::exists(path, ignored))
      return {path, path.extension() == ".npy" ? read_numbers(path, labels) : read_idx(path)};
  }
  throw Error(ErrorCode::io,
              fmt::format("the {} {} are missing: none of the files {} is there",
                          split == Split::train ? "training" : "test", labels ? "labels" : "images",
                          fmt::join(names, ", ")),
              folder.string(), std::string(how_to_get));
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
  if (!is_int(labels.array.dtype)) return 0;  // refused with all else that does not fit
  const std::vector<double> values = to_doubles(labels.array);
  const std::set<double> found(values.begin(), values.end());
  if (found.empty()) return 0;
  const double largest = *found.rbegin();
  if (largest >= static_cast<double>(most_classes))
    throw Error(
        ErrorCode::value,
        fmt::format("label {:.0f} is out of range: at most {} classes are supported", largest, most_classes),
        labels.path.string(), renumber_hint);
  // A class without a picture is nothing unusual. But where each label comes twice or more on average, chance
  // leaves out fewer than half of the classes (exp(-2) is a seventh).
  const auto different = static_cast<double>(found.size());
  if (*found.begin() >= 0 && 2 * different < largest + 1 &&
      2 * different <= static_cast<double>(values.size()))
    throw Error(
        ErrorCode::value,
        fmt::format("the labels are not numbered one by one: of the {:.0f} classes up to label {:.0f}, "
                    "{} have pictures ({})",
                    largest + 1, largest, found.size(), show_labels(found)),
        labels.path.string(), renumber_hint);
  return static_cast<int64_t>(largest) + 1;
}

Normalization training_normalization(const fs::path& folder, std::string_view how_to_get) {
  const FileArray images = read_array(folder, Split::train, false, how_to_get);
  try {
    return measure_normalization(images.array);
  } catch (const Error& error) {
    throw error.at(images.path.string());
  }
}

std::shared_ptr<const Dataset> open_folder(const fs::path& folder, Split split,
                                           std::vector<std::string> class_names, std::string_view how_to_get,
                                           const std::optional<Normalization>& normalization) {
  ArrayDatasetOptions options;
  options.normalization = normalization;
  options.classes = class_names.empty() ? count_classes(read_array(folder, Split::train, true, how_to_get))
                                        : static_cast<int64_t>(class_names.size());
  options.class_names = std::move(class_names);
  if (split != Split::train && !options.normalization)
    options.normalization = training_normalization(folder, how_to_get);
  FileArray images = read_array(folder, split, false, how_to_get);
  const FileArray labels = read_array(folder, split, true, how_to_get);
  try {
    return std::make_shared<ArrayDataset>(std::move(images.array), labels.array, std::move(options));
  } catch (const Error& error) {
    throw error.at(fmt::format("{} and {}", images.path.string(), labels.path.filename().string()));
  }
}

[[noreturn]] void throw_unknown(const std::string& name) {
  std::vector<std::string_view> names;
  for (const NamedDataset& dataset : named_datasets()) names.push_back(dataset.name);
  if (name.find('/') != std::string::npos)
    throw Error(ErrorCode::io, "the dataset's folder does not exist", name,
                fmt::format("Give a folder, or one of {}", fmt::join(names, ", ")));
  throw Error(ErrorCode::name, fmt::format("there is no dataset or folder called '{}'", name), {},
              nearest_hint(name, names));
}

}  // namespace

std::string from_any_folder(const std::string& name_or_folder) {
  const auto is_it = [&](const NamedDataset& dataset) { return dataset.name == name_or_folder; };
  if (std::ranges::any_of(named_datasets(), is_it) || !is_folder(name_or_folder)) return name_or_folder;
  std::error_code failed;
  const fs::path whole = fs::absolute(name_or_folder, failed);
  return failed ? name_or_folder : without_end_slash(whole.lexically_normal()).string();
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const NamedDataset& dataset : named_datasets()) names.emplace_back(dataset.name);
  return names;
}

std::string dataset_title(const std::string& name_or_folder) {
  return without_end_slash(fs::path(name_or_folder).lexically_normal()).filename().string();
}

std::shared_ptr<const Dataset> open_dataset(const std::string& name_or_folder, Split split,
                                            const std::optional<Normalization>& normalization) {
  for (const NamedDataset& dataset : named_datasets()) {
    if (dataset.name != name_or_folder) continue;
    const std::vector<fs::path> places = places_of(dataset.name);
    const auto found = std::find_if(places.begin(), places.end(), is_folder);
    if (found == places.end()) {
      std::vector<std::string> looked;
      looked.reserve(places.size());
      for (const fs::path& place : places) looked.push_back(place.string());
      throw Error(ErrorCode::io, fmt::format("the dataset '{}' is not installed", dataset.name), join(looked),
                  std::string(dataset.how_to_get));
    }
    return open_folder(*found, split, dataset.class_names, dataset.how_to_get, normalization);
  }
  if (!is_folder(name_or_folder)) throw_unknown(name_or_folder);
  return open_folder(name_or_folder, split, {},
                     "A dataset's folder holds the four IDX files of MNIST or .npy files", normalization);
}

}  // namespace athanor
