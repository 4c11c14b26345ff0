// WebDataset: tar archives in which the files of an example, KEY.jpg and KEY.cls, follow each other.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/encoded_pictures.h"
#include "athanor/data/held_out.h"
#include "athanor/data/openers.h"
#include "athanor/formats/tar.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr const char* shard_hint =
    "A WebDataset's archives hold each example as KEY.jpg (or .png, .webp) and KEY.cls, its class";

struct ShardExample {
  size_t shard;
  TarMember picture;
  std::string label;  // the content of KEY.cls
  int64_t number = 0;
};

class ShardPictures final : public PictureSource {
 public:
  ShardPictures(std::vector<fs::path> shards, std::vector<ShardExample> examples)
      : shards_(std::move(shards)), examples_(std::move(examples)) {}

  int64_t size() const override { return static_cast<int64_t>(examples_.size()); }
  std::string name(int64_t index) const override {
    return fmt::format("{}, {}", shards_[at(index).shard].string(), at(index).picture.name);
  }
  int64_t label(int64_t index) const override { return at(index).number; }
  std::vector<std::byte> bytes(int64_t index) const override {
    return read_tar_member(shards_[at(index).shard], at(index).picture);
  }

 private:
  const ShardExample& at(int64_t index) const { return examples_[static_cast<size_t>(index)]; }

  std::vector<fs::path> shards_;
  std::vector<ShardExample> examples_;
};

/// A member's name without its endings: the files of an example have it in common.
std::string key_of(const std::string& name) {
  const size_t slash = name.rfind('/');
  return name.substr(0, name.find('.', slash == std::string::npos ? 0 : slash + 1));
}

void add_examples(const std::vector<fs::path>& shards, size_t shard, std::vector<ShardExample>& examples) {
  constexpr uint64_t longest_label = 4096, longest_picture = uint64_t{512} << 20;
  std::map<std::string, TarMember> labels;
  std::vector<std::pair<std::string, TarMember>> pictures, unread;  // by key
  for (TarMember& member : read_tar_members(shards[shard])) {
    const size_t slash = member.name.rfind('/');
    const std::string file = member.name.substr(slash == std::string::npos ? 0 : slash + 1);
    std::string key = key_of(member.name);
    if (is_readable_picture_name(file) && member.size <= longest_picture)
      pictures.emplace_back(std::move(key), std::move(member));
    else if (is_picture_name(file))
      unread.emplace_back(std::move(key), std::move(member));
    else if (file.ends_with(".cls") && member.size <= longest_label)
      labels.insert_or_assign(std::move(key), std::move(member));
  }
  // An example with nothing but an image of another type counts as broken.
  std::set<std::string> keys;
  for (const auto& [key, picture] : pictures) keys.insert(key);
  for (auto& [key, picture] : unread)
    if (labels.contains(key) && keys.insert(key).second) pictures.emplace_back(key, std::move(picture));
  for (auto& [key, picture] : pictures) {
    const auto label = labels.find(key);
    if (label == labels.end())
      throw Error(ErrorCode::format, fmt::format("'{}' has no class: {}.cls is missing", picture.name, key),
                  shards[shard].string(), shard_hint);
    const std::vector<std::byte> text = read_tar_member(shards[shard], label->second);
    examples.push_back(
        {shard, std::move(picture), trim({reinterpret_cast<const char*>(text.data()), text.size()})});
  }
}

/// Numbers the labels: as they are if all are whole numbers, otherwise by name. Returns the names; {} for
/// numbers.
std::vector<std::string> number_labels(std::vector<ShardExample>& examples, const DataOptions& options,
                                       const fs::path& place) {
  constexpr int64_t most_shard_classes = 65536;
  const auto number_in = [](const std::string& text, int64_t& number) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failed == std::errc() && end == text.data() + text.size() && number >= 0 &&
           number < most_shard_classes;
  };
  if (std::ranges::all_of(examples, [&](ShardExample& e) { return number_in(e.label, e.number); }))
    return options.like ? options.like->class_names : std::vector<std::string>();
  std::vector<std::string> names;
  if (options.like) {
    names = options.like->class_names;
  } else {
    std::set<std::string> sorted;
    for (const ShardExample& example : examples) sorted.insert(example.label);
    names.assign(sorted.begin(), sorted.end());
  }
  for (ShardExample& example : examples) {
    const auto found = std::ranges::find(names, example.label);
    if (found == names.end())
      throw Error(
          ErrorCode::value,
          fmt::format("the class '{}' of '{}' is none that is known", example.label, example.picture.name),
          place.string(), "Test and training images must have the same classes");
    example.number = found - names.begin();
  }
  return names;
}

/// "x-{000..012}.tar": all its names in order; for any other name, only that.
std::vector<fs::path> braces_expanded(const fs::path& path) {
  const std::string text = path.string();
  const size_t open = text.find('{'), dots = text.find("..", open), close = text.find('}', open);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos || dots > close)
    return {path};
  const std::string from = text.substr(open + 1, dots - open - 1),
                    to = text.substr(dots + 2, close - dots - 2);
  int64_t first = 0, last = 0;
  std::from_chars(from.data(), from.data() + from.size(), first);
  std::from_chars(to.data(), to.data() + to.size(), last);
  std::vector<fs::path> result;
  for (int64_t i = first; i <= last && i - first < 100'000; ++i)
    result.emplace_back(
        fmt::format("{}{:0{}}{}", text.substr(0, open), i, from.size(), text.substr(close + 1)));
  return result;
}

std::vector<fs::path> shards_in(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return braces_expanded(path);
  std::vector<fs::path> shards;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().extension() == ".tar") shards.push_back(entry->path());
  std::ranges::sort(shards);
  return shards;
}

bool is_test_shard(const fs::path& shard) {
  const std::string name = shard.filename().string();
  return contains_ignoring_case(name, "test") || contains_ignoring_case(name, "val");
}

}  // namespace

bool has_shards(const fs::path& path) {
  const std::vector<fs::path> shards = shards_in(path);
  std::error_code failed;
  return !shards.empty() && shards.front().extension() == ".tar" && fs::exists(shards.front(), failed);
}

std::shared_ptr<const Dataset> open_webdataset(const fs::path& path, Split split,
                                               const DataOptions& options) {
  std::vector<fs::path> shards = shards_in(path);
  const auto tests = std::ranges::count_if(shards, is_test_shard);
  const bool own_test = tests > 0 && tests < static_cast<std::ptrdiff_t>(shards.size());
  if (own_test)
    std::erase_if(shards, [&](const fs::path& s) { return is_test_shard(s) != (split == Split::test); });

  std::vector<ShardExample> examples;
  for (size_t i = 0; i < shards.size(); ++i) add_examples(shards, i, examples);
  const std::vector<std::string> names = number_labels(examples, options, path);
  int64_t classes = options.like ? options.like->classes : static_cast<int64_t>(names.size());
  if (!options.like)
    for (const ShardExample& example : examples) classes = std::max(classes, example.number + 1);
  if (!own_test) {
    std::vector<std::string> keys;
    std::vector<int64_t> labels;
    for (const ShardExample& e : examples) {
      keys.push_back(e.picture.name);
      labels.push_back(e.number);
    }
    const std::vector<bool> tested = held_out(keys, labels);
    size_t i = 0;
    std::erase_if(examples, [&](const ShardExample&) { return tested[i++] != (split == Split::test); });
  }
  if (examples.empty())
    throw Error(
        ErrorCode::io,
        fmt::format("there are no {} images in the archives", split == Split::train ? "training" : "test"),
        path.string(), shard_hint);
  return std::make_shared<EncodedPictures>(
      std::make_unique<ShardPictures>(std::move(shards), std::move(examples)), names, classes, options,
      path.string());
}

}  // namespace athanor
