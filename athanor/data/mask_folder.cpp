// Folders of images and masks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/data/encoded_pictures.h"
#include "athanor/data/held_out.h"
#include "athanor/data/masks.h"
#include "athanor/data/openers.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr const char* mask_folder_hint =
    "Put images into images/ and masks of the same names into masks/, PNG files with the class of each "
    "pixel "
    "(in train/ and test/ or val/, or without these in the folder itself)";

bool has_folder(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::is_directory(folder / name, ignored);
}

bool holds_pairs(const fs::path& folder) {
  return has_folder(folder, "images") && has_folder(folder, "masks");
}

/// The folder with the test images; empty if there is none.
fs::path test_part(const fs::path& folder) {
  for (const char* name : {"test", "testing", "val", "valid", "validation"})
    if (holds_pairs(folder / name)) return folder / name;
  return {};
}

fs::path training_part(const fs::path& folder) {
  for (const char* name : {"train", "training"})
    if (holds_pairs(folder / name)) return folder / name;
  return folder;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (is_picture_name(entry->path().filename().string())) files.push_back(entry->path());
  if (failed) throw file_error("list", folder, failed);
  std::ranges::sort(files);
  return files;
}

std::vector<MaskedFile> pairs_in(const fs::path& folder) {
  std::vector<MaskedFile> pairs;
  std::vector<std::string> alone;
  for (const fs::path& picture : files_in(folder / "images")) {
    const fs::path mask = folder / "masks" / (picture.stem().string() + ".png");
    std::error_code ignored;
    if (fs::exists(mask, ignored))
      pairs.push_back({picture, mask});
    else
      alone.push_back(picture.filename().string());
  }
  if (alone.empty() && !pairs.empty()) return pairs;
  if (alone.empty())
    throw Error(ErrorCode::io, "there are no images", (folder / "images").string(), mask_folder_hint);
  constexpr size_t most_named = 5;
  const size_t all = alone.size();
  alone.resize(std::min(all, most_named));
  throw Error(ErrorCode::io,
              fmt::format("{} image{} no mask: {}{}", all, all == 1 ? " has" : "s have", join(alone),
                          all > most_named ? ", ..." : ""),
              (folder / "masks").string(), mask_folder_hint);
}

std::vector<MaskedFile> pairs_of(const fs::path& folder, Split split) {
  const fs::path test = test_part(folder), training = training_part(folder);
  if (!test.empty()) return pairs_in(split == Split::test ? test : training);
  std::vector<MaskedFile> all = pairs_in(training), kept;
  std::vector<std::string> names;
  for (const MaskedFile& pair : all) names.push_back(pair.picture.filename().string());
  const std::vector<bool> tested = held_out(names, std::vector<int64_t>(names.size()));
  for (size_t i = 0; i < all.size(); ++i)
    if (tested[i] == (split == Split::test)) kept.push_back(std::move(all[i]));
  if (kept.empty())
    throw Error(ErrorCode::value, "there are too few images to keep any for testing", folder.string(),
                mask_folder_hint);
  return kept;
}

/// The lines of classes.txt; {} without one.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  const fs::path file = folder / "classes.txt";
  if (!fs::exists(file, ignored)) return names;
  for (const std::string& line : split(read_text_file(file), '\n'))
    if (const std::string name = trim(line); !name.empty()) names.push_back(name);
  if (names.empty() || names.size() > 255)
    throw Error(ErrorCode::value, fmt::format("the file names {} classes", names.size()), file.string(),
                "Give each of up to 255 classes a line, from class 0 on");
  return names;
}

/// 1 + the largest class in any mask that can be read.
int64_t count_classes(const std::vector<MaskedFile>& pairs, const fs::path& folder) {
  std::array<bool, 256> seen{};
  for (const MaskedFile& pair : pairs) {
    try {
      const HostArray mask = read_mask(pair.mask);
      for (const uint8_t pixel : mask.as<uint8_t>()) seen[pixel] = true;
    } catch (const Error&) {
      // It is counted as broken when the dataset reads it.
    }
  }
  int64_t classes = 0;
  for (size_t i = 0; i < ignored_pixel; ++i)
    if (seen[i]) classes = static_cast<int64_t>(i) + 1;
  if (classes == 0)
    throw Error(ErrorCode::format, "no mask with a class can be read", folder.string(), mask_folder_hint);
  if (classes == 1 && seen[ignored_pixel])
    throw Error(ErrorCode::value, "the masks hold 0 and 255 alone, and 255 is for pixels that do not count",
                folder.string(), "Write the second class as 1: numpy.where(mask == 255, 1, 0)");
  return classes;
}

class PairedPictures final : public PictureSource {
 public:
  explicit PairedPictures(std::vector<MaskedFile> pairs) : pairs_(std::move(pairs)) {}
  int64_t size() const override { return std::ssize(pairs_); }
  std::string name(int64_t index) const override { return path(index).string(); }
  int64_t label(int64_t /*index*/) const override { return 0; }
  std::vector<std::byte> bytes(int64_t index) const override { return read_file(path(index)); }

 private:
  const fs::path& path(int64_t index) const { return pairs_[static_cast<size_t>(index)].picture; }
  std::vector<MaskedFile> pairs_;
};

}  // namespace

bool is_mask_folder(const fs::path& folder) { return holds_pairs(training_part(folder)); }

std::shared_ptr<const Dataset> open_mask_folder(const fs::path& folder, Split split,
                                                const DataOptions& options) {
  std::vector<MaskedFile> pairs = pairs_of(folder, split);
  ExampleSpec spec;
  if (options.like) {
    spec = *options.like;
  } else {
    const std::vector<MaskedFile> learned = pairs_of(folder, Split::train);
    spec = EncodedPictures(std::make_unique<PairedPictures>(learned), {}, 1, options, folder.string()).spec();
    spec.class_names = names_in(folder);
    spec.classes = spec.class_names.empty() ? count_classes(learned, folder) : std::ssize(spec.class_names);
    spec.pixels = true;
  }
  return std::make_shared<MaskedPictures>(std::move(pairs), std::move(spec), options.most_broken);
}

}  // namespace athanor
