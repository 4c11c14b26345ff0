#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/data/encoded_pictures.h"
#include "athanor/data/held_out.h"
#include "athanor/data/openers.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t longest_picture_file = uint64_t{512} << 20;

class PictureFiles final : public PictureSource {
 public:
  PictureFiles(fs::path root, std::vector<std::pair<std::string, int64_t>> files)
      : root_(std::move(root)), files_(std::move(files)) {}

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  std::string name(int64_t index) const override { return (root_ / file(index).first).string(); }
  int64_t label(int64_t index) const override { return file(index).second; }
  std::vector<std::byte> bytes(int64_t index) const override {
    return read_file(root_ / file(index).first, longest_picture_file);
  }

 private:
  const std::pair<std::string, int64_t>& file(int64_t index) const {
    return files_[static_cast<size_t>(index)];
  }

  fs::path root_;
  std::vector<std::pair<std::string, int64_t>> files_;  // path below root_, label
};

/// The folders in `folder`, by name; hidden ones are left out.
std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(ignored) && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

/// The images below `folder`, as paths below `root`.
std::vector<std::string> pictures_below(const fs::path& root, const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (is_picture_name(entry->path().filename().string()) && entry->is_regular_file(ignored))
      names.push_back(entry->path().lexically_relative(root).string());
  }
  if (failed) throw file_error("list", folder, failed);
  std::ranges::sort(names);
  return names;
}

/// Whether a file below `folder` has a name that `wanted` accepts.
template <class Wanted>
bool has_file(const fs::path& folder, Wanted wanted) {
  int64_t left = 100'000;  // a whole disk, given by mistake, is not searched
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end && left > 0;
       entry.increment(failed), --left) {
    std::error_code ignored;
    if (wanted(entry->path().filename().string()) && !entry->is_directory(ignored)) return true;
  }
  return false;
}

bool has_pictures(const fs::path& folder) { return has_file(folder, is_picture_name); }

/// A class whose images are missing. A folder of other files is no class: people keep scripts beside theirs.
bool is_empty_class(const fs::path& folder) {
  std::error_code denied;
  const fs::directory_iterator listed(folder, denied);
  return !denied && !has_file(folder, [](const std::string& name) { return !name.starts_with('.'); });
}

const std::vector<std::string> train_folders = {"train", "training"};
const std::vector<std::string> test_folders = {"test", "testing", "val", "valid", "validation"};

/// The first of `names` that is a folder in `folder`; "" if none is.
std::string first_folder(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::error_code ignored;
    if (fs::is_directory(folder / name, ignored)) return name;
  }
  return {};
}

/// The folder's classes: those of a given model, otherwise its own.
std::vector<std::string> classes_of(const fs::path& training, const DataOptions& options) {
  if (options.like && !options.like->class_names.empty()) return options.like->class_names;
  std::vector<std::string> names, empty;
  for (const std::string& name : folders_in(training))
    if (has_pictures(training / name))
      names.push_back(name);
    else if (is_empty_class(training / name))
      empty.push_back(name);
  if (!empty.empty())
    throw Error(ErrorCode::value,
                fmt::format("{} of the {} class folders {} no images: {}", empty.size(),
                            empty.size() + names.size(), empty.size() == 1 ? "has" : "have", join(empty)),
                training.string(),
                fmt::format("Put images into {}, or remove {}", empty.size() == 1 ? "it" : "them",
                            empty.size() == 1 ? "it" : "them"));
  return names;
}

bool has_ending(std::string_view name, std::initializer_list<std::string_view> endings) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.starts_with('.')) return false;
  std::string ending(name.substr(dot + 1));
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::ranges::find(endings, ending) != endings.end();
}

}  // namespace

bool is_readable_picture_name(std::string_view name) {
  return has_ending(name, {"jpg", "jpeg", "png", "webp"});
}

bool is_picture_name(std::string_view name) {
  return is_readable_picture_name(name) ||
         has_ending(name, {"gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jxl", "jp2", "ppm", "pgm"});
}

bool is_picture_folder(const fs::path& folder) {
  const auto any_class = [](const fs::path& of, bool (*counts)(const fs::path&)) {
    return std::ranges::any_of(folders_in(of), [&](const std::string& name) { return counts(of / name); });
  };
  const std::string training = first_folder(folder, train_folders);
  if (training.empty()) return any_class(folder, has_pictures);
  return any_class(folder / training, has_pictures) || any_class(folder / training, is_empty_class);
}

std::shared_ptr<const Dataset> open_picture_folder(const fs::path& folder, Split split,
                                                   const DataOptions& options) {
  const std::string training_name = first_folder(folder, train_folders);
  const std::string test_name = first_folder(folder, test_folders);
  const fs::path training = folder / training_name;
  const bool own_test = !training_name.empty() && !test_name.empty();
  const fs::path here = own_test && split == Split::test ? folder / test_name : training;

  const std::vector<std::string> classes = classes_of(training, options);
  std::vector<std::pair<std::string, int64_t>> files;
  for (const std::string& name : folders_in(here)) {
    const auto found = std::ranges::find(classes, name);
    std::vector<std::string> pictures = pictures_below(here, here / name);
    if (found == classes.end() && !pictures.empty())
      throw Error(ErrorCode::value,
                  fmt::format("the class '{}' is none of the {} that are known: {}", name, classes.size(),
                              join(classes)),
                  (here / name).string(), "Test and training images must have the same classes");
    for (std::string& picture : pictures) files.emplace_back(std::move(picture), found - classes.begin());
  }
  if (!own_test) {
    std::vector<std::string> names;
    std::vector<int64_t> labels;
    for (const auto& [name, label] : files) names.push_back(name), labels.push_back(label);
    const std::vector<bool> tested = held_out(names, labels);
    std::vector<std::pair<std::string, int64_t>> kept;
    for (size_t i = 0; i < files.size(); ++i)
      if (tested[i] == (split == Split::test)) kept.push_back(std::move(files[i]));
    files = std::move(kept);
  }
  if (files.empty())
    throw Error(ErrorCode::io,
                fmt::format("there are no {} images", split == Split::train ? "training" : "test"),
                here.string(), "Put them there as CLASS/NAME.jpg (or .png, .webp)");
  return std::make_shared<EncodedPictures>(std::make_unique<PictureFiles>(here, std::move(files)), classes,
                                           static_cast<int64_t>(classes.size()), options, folder.string());
}

}  // namespace athanor
