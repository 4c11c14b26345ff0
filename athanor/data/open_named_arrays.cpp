// Arrays in one file: .npz and .safetensors.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/held_out.h"
#include "athanor/data/openers.h"
#include "athanor/formats/npz.h"
#include "athanor/formats/safetensors.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;
using Arrays = std::map<std::string, HostArray>;

/// The names that a split's arrays may have: as in Athanor's files, or as in Keras' archives.
std::vector<std::string> array_names(Split split, bool labels) {
  const std::string side = split == Split::train ? "train" : "test";
  if (labels) return {side + "_labels", "y_" + side, side + "_y", side + "_targets"};
  return {side + "_images", "x_" + side, side + "_x", side + "_inputs"};
}

std::vector<std::string> only_names(bool labels) {
  if (labels) return {"labels", "label", "y", "targets"};
  return {"images", "x", "X", "data", "inputs"};
}

std::string first_of(const Arrays& arrays, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (arrays.contains(name)) return name;
  return {};
}

/// Labels [N, 1], as in Keras, become [N].
HostArray flat_labels(HostArray labels) {
  if (labels.shape.rank() == 2 && labels.shape[1] == 1) labels.shape = {labels.shape[0]};
  return labels;
}

HostArray chosen_rows(const HostArray& array, const std::vector<bool>& chosen, bool value) {
  const auto count = std::ranges::count(chosen, value);
  HostArray result(array.dtype, array.shape.with(0, count));
  const size_t row = count == 0 ? 0 : result.bytes.size() / static_cast<size_t>(count);
  auto out = result.bytes.begin();
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i] == value)
      out = std::copy_n(array.bytes.begin() + static_cast<std::ptrdiff_t>(i * row), row, out);
  return result;
}

[[noreturn]] void no_arrays(const fs::path& file, const Arrays& arrays, const std::string& missing) {
  std::vector<std::string> there;
  for (const auto& [name, array] : arrays)
    there.push_back(fmt::format("{} {}", name, to_string(array.shape)));
  throw Error(
      ErrorCode::io,
      fmt::format("there is no array {}; the file has {}", missing, there.empty() ? "none" : join(there)),
      file.string(),
      "Call the arrays train_images, train_labels, test_images and test_labels (or images and labels)");
}

/// For a file with one split: which examples are kept for testing depends on their numbers.
ReadArray one_split(const fs::path& file, const std::shared_ptr<const Arrays>& arrays,
                    const std::string& images, const std::string& labels, bool are_classes) {
  const HostArray numbers = flat_labels(arrays->at(labels));
  if (are_classes && (!is_int(numbers.dtype) || numbers.shape.rank() != 1))
    throw Error(ErrorCode::dtype,
                fmt::format("the labels are {} {}", to_string(numbers.dtype), to_string(numbers.shape)),
                (file / labels).string(), "They must be whole numbers, [N]; or give --task regression");
  const int64_t count = numbers.shape.rank() > 0 ? numbers.shape[0] : 0;
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  std::vector<int64_t> classes(static_cast<size_t>(count));
  if (are_classes)
    std::ranges::transform(to_doubles(numbers), classes.begin(),
                           [](double label) { return static_cast<int64_t>(label); });
  if (arrays->at(images).shape.rank() < 1 || arrays->at(images).shape[0] != count)
    throw Error(ErrorCode::shape,
                fmt::format("images of shape {} but {} labels", to_string(arrays->at(images).shape), count),
                file.string());
  return [=, tested = held_out(names, classes)](Split split, bool want_labels) {
    const std::string& name = want_labels ? labels : images;
    const HostArray& array = arrays->at(name);
    return FileArray{file / name,
                     chosen_rows(want_labels ? flat_labels(array) : array, tested, split == Split::test)};
  };
}

ReadArray reader_of(const fs::path& file, Arrays content, bool are_classes) {
  const auto arrays = std::make_shared<const Arrays>(std::move(content));
  const std::string images = first_of(*arrays, only_names(false)),
                    labels = first_of(*arrays, only_names(true));
  if (first_of(*arrays, array_names(Split::train, false)).empty() && !images.empty() && !labels.empty())
    return one_split(file, arrays, images, labels, are_classes);
  return [file, arrays](Split split, bool want_labels) {
    const std::vector<std::string> names = array_names(split, want_labels);
    const std::string name = first_of(*arrays, names);
    if (name.empty()) no_arrays(file, *arrays, join(names, ", or "));
    const HostArray& array = arrays->at(name);
    return FileArray{file / name, want_labels ? flat_labels(array) : array};
  };
}

std::shared_ptr<const Dataset> open_either(const ReadArray& read, Split split, const DataOptions& options) {
  return options.numbers ? open_number_arrays(read, split, options) : open_arrays(read, split, {}, options);
}

}  // namespace

std::shared_ptr<const Dataset> open_npz(const fs::path& file, Split split, const DataOptions& options) {
  return open_either(reader_of(file, read_npz(file), !options.numbers), split, options);
}

std::shared_ptr<const Dataset> open_safetensors(const fs::path& file, Split split,
                                                const DataOptions& options) {
  return open_either(reader_of(file, read_safetensors(file).tensors, !options.numbers), split, options);
}

}  // namespace athanor
