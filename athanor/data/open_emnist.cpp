#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/data/openers.h"
#include "athanor/formats/idx.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view train_pictures = "-train-images-idx3-ubyte";

/// Turns the images: the files hold them column by column.
HostArray upright(HostArray images) {
  if (images.shape.rank() != 3 || images.dtype != DType::u8)
    return images;  // refused later, with everything else that does not fit
  const int64_t count = images.shape[0], height = images.shape[1], width = images.shape[2];
  HostArray result(DType::u8, {count, width, height});
  const auto from = std::as_const(images).as<uint8_t>();
  auto out = result.as<uint8_t>().begin();
  for (int64_t i = 0; i < count; ++i)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t y = 0; y < height; ++y) *out++ = from[static_cast<size_t>((i * height + y) * width + x)];
  return result;
}

FileArray read_emnist(const fs::path& folder, const std::string& part, Split split, bool labels) {
  const std::string name = fmt::format("{}-{}-{}-ubyte", part, split == Split::train ? "train" : "test",
                                       labels ? "labels-idx1" : "images-idx3");
  for (const std::string& file : {name, name + ".gz"}) {
    std::error_code ignored;
    if (!fs::exists(folder / file, ignored)) continue;
    HostArray array = read_idx(folder / file);
    if (!labels) return {folder / file, upright(std::move(array))};
    if (part == "emnist-letters" && array.dtype == DType::u8)  // numbered from 1
      for (uint8_t& label : array.as<uint8_t>())
        if (label > 0) --label;
    return {folder / file, std::move(array)};
  }
  throw Error(ErrorCode::io, fmt::format("the file {} is missing, plain or as .gz", name), folder.string(),
              "Put EMNIST's IDX files (gzip.zip, unpacked) there");
}

/// The content of the mapping file: lines of a label and the codes of its characters.
std::vector<std::string> emnist_class_names(const fs::path& folder, const std::string& part) {
  constexpr uint64_t longest_mapping = 1 << 16;
  const fs::path path = folder / (part + "-mapping.txt");
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  std::vector<std::string> names;
  for (const std::string& line : split(read_text_file(path, longest_mapping), '\n')) {
    const std::vector<std::string> words = split(trim(line), ' ');
    int code = 0;
    if (words.size() < 2) continue;
    std::from_chars(words[1].data(), words[1].data() + words[1].size(), code);
    if (code > ' ' && code < 127) names.emplace_back(1, static_cast<char>(code));
  }
  return names;
}

}  // namespace

std::vector<std::string> emnist_parts(const fs::path& folder) {
  std::vector<std::string> parts;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const size_t at = name.find(train_pictures);
    if (name.starts_with("emnist-") && at != std::string::npos) parts.push_back(name.substr(0, at));
  }
  std::ranges::sort(parts);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

std::shared_ptr<const Dataset> open_emnist(const fs::path& folder, const std::string& part, Split split,
                                           const DataOptions& options) {
  return open_arrays([=](Split side, bool labels) { return read_emnist(folder, part, side, labels); }, split,
                     emnist_class_names(folder, part), options);
}

}  // namespace athanor
