#include "athanor/data/open_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/data/openers.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

struct NamedDataset {
  std::string_view name;
  std::vector<std::string> class_names;
  std::string_view how_to_get;
};

constexpr const char* emnist_hint = "Put EMNIST's IDX files (gzip.zip, unpacked) into ./data/emnist";

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
      {"cifar-10", {}, "Unpack cifar-10-binary.tar.gz (not the Python version) in ./data/cifar-10"},
      {"cifar-100", {}, "Unpack cifar-100-binary.tar.gz (not the Python version) in ./data/cifar-100"},
      {"emnist-balanced", {}, emnist_hint},
      {"emnist-byclass", {}, emnist_hint},
      {"emnist-bymerge", {}, emnist_hint},
      {"emnist-digits", {}, emnist_hint},
      {"emnist-letters", {}, emnist_hint},
      {"emnist-mnist", {}, emnist_hint},
  };
  return datasets;
}

std::vector<fs::path> places_of(std::string_view name) {
  if (name.starts_with("emnist-")) name = "emnist";  // all its parts come in one archive
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

/// Up to six of the names in a folder, for an error.
std::string what_is_in(const fs::path& folder) {
  constexpr size_t shown = 6;
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  const size_t all = names.size();
  names.resize(std::min(all, shown));
  return all == 0 ? "it is empty" : fmt::format("it holds {}{}", join(names), all > shown ? ", ..." : "");
}

constexpr const char* folder_hint =
    "A dataset's folder holds images as train/CLASS/NAME.jpg, the four IDX files of MNIST, four .npy files "
    "(train_images.npy, train_labels.npy, test_images.npy, test_labels.npy), CIFAR's .bin files, "
    "WebDataset's .tar files, or train.csv and test.csv";

bool is_table_file(const fs::path& file) { return file.extension() == ".csv" || file.extension() == ".tsv"; }

/// Whether the file has no known ending and begins without zero bytes.
bool is_text_file(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  static const std::set<std::string> others{".npz", ".npy", ".safetensors", ".csv",  ".tsv", ".tar",
                                            ".png", ".jpg", ".jpeg",        ".webp", ".gz",  ".zip"};
  if (others.contains(file.extension().string())) return false;
  std::ifstream stream(file, std::ios::binary);
  std::array<char, 4096> start{};
  stream.read(start.data(), start.size());
  return std::find(start.begin(), start.begin() + stream.gcount(), '\0') == start.begin() + stream.gcount();
}

/// A dataset in a file. Throws an error that names what was found.
std::shared_ptr<const Dataset> open_file(const fs::path& file, Split split, const DataOptions& options) {
  const std::string ending = file.extension().string();
  if (ending == ".npz") return open_npz(file, split, options);
  if (ending == ".safetensors") return open_safetensors(file, split, options);
  if (is_table_file(file)) return open_csv(file, split, options);
  if (ending == ".tar") return open_webdataset(file, split, options);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  if (ending == ".npy")
    throw Error(ErrorCode::io, "one array is not a dataset: it has images or labels, not both", file.string(),
                fmt::format("Call four of them train_images.npy, train_labels.npy, test_images.npy and "
                            "test_labels.npy, and give their folder: {}",
                            folder));
  throw Error(
      ErrorCode::io,
      fmt::format("'{}' is not a kind of dataset file", ending.empty() ? file.filename().string() : ending),
      file.string(), "Known are .npz, .safetensors, .csv, .tsv and .tar files, and folders");
}

enum class FolderKind { arrays, cifar, emnist, shards, table, masks, pictures, unknown };

FolderKind folder_kind(const fs::path& folder) {
  if (has_array_files(folder)) return FolderKind::arrays;
  if (find_cifar(folder)) return FolderKind::cifar;
  if (!emnist_parts(folder).empty()) return FolderKind::emnist;
  if (has_shards(folder)) return FolderKind::shards;
  if (has_table(folder)) return FolderKind::table;
  if (is_mask_folder(folder)) return FolderKind::masks;
  return is_picture_folder(folder) ? FolderKind::pictures : FolderKind::unknown;
}

std::shared_ptr<const Dataset> open_emnist_folder(const fs::path& folder, Split split,
                                                  const DataOptions& options) {
  const auto parts = emnist_parts(folder);
  if (parts.size() == 1) return open_emnist(folder, parts.front(), split, options);
  throw Error(
      ErrorCode::value, fmt::format("the folder holds several datasets: {}", join(parts)), folder.string(),
      fmt::format("Move one to a folder of its own, or to ./data/emnist for --data {}", parts.front()));
}

std::shared_ptr<const Dataset> open_folder(const fs::path& folder, Split split, const DataOptions& options) {
  switch (folder_kind(folder)) {
    case FolderKind::arrays: {
      const ReadArray read = array_files(folder, folder_hint);
      return options.numbers ? open_number_arrays(read, split, options)
                             : open_arrays(read, split, {}, options);
    }
    case FolderKind::cifar:
      return open_cifar(*find_cifar(folder), split, options);
    case FolderKind::emnist:
      return open_emnist_folder(folder, split, options);
    case FolderKind::shards:
      return open_webdataset(folder, split, options);
    case FolderKind::table:
      return open_csv(folder, split, options);
    case FolderKind::masks:
      return open_mask_folder(folder, split, options);
    case FolderKind::pictures:
      return open_picture_folder(folder, split, options);
    case FolderKind::unknown:
      break;
  }
  throw Error(ErrorCode::io, fmt::format("the folder is not a known kind of dataset: {}", what_is_in(folder)),
              folder.string(), folder_hint);
}

std::shared_ptr<const Dataset> open_named(const NamedDataset& dataset, const fs::path& folder, Split split,
                                          const DataOptions& options) {
  const std::string name(dataset.name);
  if (name.starts_with("emnist-")) return open_emnist(folder, name, split, options);
  if (name.starts_with("cifar-")) {
    if (const auto cifar = find_cifar(folder)) return open_cifar(*cifar, split, options);
    throw Error(ErrorCode::io,
                fmt::format("the folder holds no binary files of {}: {}", name, what_is_in(folder)),
                folder.string(), std::string(dataset.how_to_get));
  }
  return open_arrays(array_files(folder, dataset.how_to_get), split, dataset.class_names, options);
}

[[noreturn]] void throw_unknown(const std::string& name) {
  std::vector<std::string_view> names;
  for (const NamedDataset& dataset : named_datasets()) names.push_back(dataset.name);
  std::error_code unknown;
  if (fs::exists(name, unknown))
    throw Error(ErrorCode::io, "the dataset is neither a folder nor a file", name,
                fmt::format("Give a folder, a file, or one of {}", fmt::join(names, ", ")));
  if (unknown) throw file_error("read", name, unknown);  // access may be denied
  if (name.find('/') != std::string::npos)
    throw Error(ErrorCode::io, "the dataset's folder or file does not exist", name,
                fmt::format("Give a folder, a file, or one of {}", fmt::join(names, ", ")));
  throw Error(ErrorCode::name, fmt::format("there is no dataset or folder called '{}'", name), {},
              nearest_hint(name, names));
}

}  // namespace

std::string from_any_folder(const std::string& name_or_folder) {
  const auto is_it = [&](const NamedDataset& dataset) { return dataset.name == name_or_folder; };
  std::error_code failed;
  const bool is_path = fs::exists(name_or_folder, failed) || has_shards(name_or_folder);
  if (std::ranges::any_of(named_datasets(), is_it) || !is_path) return name_or_folder;
  const fs::path whole = fs::absolute(name_or_folder, failed);
  return failed ? name_or_folder : without_end_slash(whole.lexically_normal()).string();
}

DataKind kind_of_data(const std::string& name_or_folder) {
  const auto names = dataset_names();
  if (std::ranges::find(names, name_or_folder) != names.end()) return DataKind::images;
  if (is_folder(name_or_folder)) {
    const FolderKind kind = folder_kind(name_or_folder);
    return kind == FolderKind::table   ? DataKind::table
           : kind == FolderKind::masks ? DataKind::masks
                                       : DataKind::images;
  }
  if (is_table_file(name_or_folder)) return DataKind::table;
  return is_text_file(name_or_folder) ? DataKind::text : DataKind::images;
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const NamedDataset& dataset : named_datasets()) names.emplace_back(dataset.name);
  return names;
}

std::string dataset_title(const std::string& name_or_folder) {
  return without_end_slash(fs::path(name_or_folder).lexically_normal()).filename().string();
}

namespace {

std::shared_ptr<const Dataset> open_any(const std::string& name_or_folder, Split split,
                                        const DataOptions& options) {
  for (const NamedDataset& dataset : named_datasets()) {
    if (dataset.name != name_or_folder) continue;
    const std::vector<fs::path> places = places_of(dataset.name);
    const auto found = std::find_if(places.begin(), places.end(), is_folder);
    if (found == places.end()) {
      std::vector<std::string> looked;
      looked.reserve(places.size());
      for (const fs::path& place : places) looked.push_back(place.string());
      if (is_folder(dataset.name))
        throw Error(ErrorCode::io, fmt::format("the dataset '{}' is not installed", dataset.name),
                    join(looked), fmt::format("For the folder here, write ./{}", dataset.name));
      throw Error(ErrorCode::io, fmt::format("the dataset '{}' is not installed", dataset.name), join(looked),
                  std::string(dataset.how_to_get));
    }
    return open_named(dataset, *found, split, options);
  }
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(name_or_folder, ignored);
  if (!is_folder(name_or_folder) && (is_file || has_shards(name_or_folder)))
    return open_file(name_or_folder, split, options);
  if (!is_folder(name_or_folder)) throw_unknown(name_or_folder);
  return open_folder(name_or_folder, split, options);
}

bool is_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

/// Throws for names that are not UTF-8: they are stored with the model, as JSON.
void check_names(const ExampleSpec& spec, const std::string& place) {
  const auto check = [&](const std::string& name, const char* what) {
    if (is_utf8(name)) return;
    throw Error(ErrorCode::value, fmt::format("the name of a {} is not UTF-8", what), place,
                "Rename it, or save the file in UTF-8");
  };
  for (const std::string& name : spec.class_names) check(name, "class");
  for (const ColumnEncoding& column : spec.columns) {
    check(column.name, "column");
    for (const std::string& category : column.categories) check(category, "category");
  }
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const std::string& name_or_folder, Split split,
                                            const DataOptions& options) {
  std::shared_ptr<const Dataset> dataset = open_any(name_or_folder, split, options);
  if (options.numbers && dataset->spec().targets.empty())
    throw Error(
        ErrorCode::usage, "the dataset has classes, and regression predicts numbers", name_or_folder,
        "Give a table (--data FILE.csv --target COLUMN), or arrays of inputs and targets in an .npz, a "
        ".safetensors or train_inputs.npy, train_targets.npy, test_inputs.npy and test_targets.npy");
  check_names(dataset->spec(), name_or_folder);
  return dataset;
}

}  // namespace athanor
