#include "athanor/data/encoded_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/fit_image.h"
#include "athanor/formats/image.h"

namespace athanor {
namespace {

constexpr int64_t most_sampled = 256, usual_size = 224, largest_own_size = 256;

/// Indices of up to most_sampled examples, evenly spread.
std::vector<int64_t> sampled_of(int64_t size) {
  const int64_t count = std::min(size, most_sampled);
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(i * size / count);
  return result;
}

/// Height and width of the examples: see DataOptions.
std::array<int64_t, 2> example_size(const std::vector<ImageExtents>& seen, int64_t asked) {
  if (asked > 0) return {asked, asked};
  const ImageExtents& first = seen.front();
  const bool alike = std::ranges::all_of(seen, [&](const ImageExtents& extents) {
    return extents.height == first.height && extents.width == first.width;
  });
  if (alike && first.height <= largest_own_size && first.width <= largest_own_size)
    return {first.height, first.width};
  return {usual_size, usual_size};
}

/// Sums of brightness and its squares, channel by channel.
class PixelSums {
 public:
  explicit PixelSums(int64_t channels) : sums_(static_cast<size_t>(channels)), squares_(sums_) {}

  void add(const Picture& picture) {
    for (size_t c = 0; c < sums_.size(); ++c)
      for (int64_t i = 0; i < picture.plane_size(); ++i) {
        const double x = picture.plane(static_cast<int64_t>(c))[i];
        sums_[c] += x, squares_[c] += x * x;
      }
    count_ += static_cast<double>(picture.plane_size());
  }

  Normalization normalization() const {
    Normalization result;
    for (size_t c = 0; c < sums_.size(); ++c) {
      const double mean = sums_[c] / count_, variance = squares_[c] / count_ - mean * mean;
      result.mean.push_back(static_cast<float>(mean));
      result.stddev.push_back(variance > 1e-10 ? static_cast<float>(std::sqrt(variance)) : 1.0F);
    }
    return result;
  }

 private:
  std::vector<double> sums_, squares_;
  double count_ = 0;
};

}  // namespace

EncodedPictures::EncodedPictures(std::unique_ptr<const PictureSource> source,
                                 std::vector<std::string> class_names, int64_t classes,
                                 const DataOptions& options, const std::string& place)
    : source_(std::move(source)), most_broken_(options.most_broken) {
  spec_.classes = classes;
  spec_.class_names = std::move(class_names);
  if (options.like && !options.like->columns.empty())
    throw Error(ErrorCode::shape, "the model was trained on a table, and these are images", place);
  if (options.like) {
    spec_.input = options.like->input;
    spec_.normalization = options.like->normalization;
  } else {
    learn_spec(options, place);
  }
}

void EncodedPictures::learn_spec(const DataOptions& options, const std::string& place) {
  std::vector<ImageExtents> seen;
  std::vector<int64_t> readable;
  std::optional<Error> problem;
  for (const int64_t index : sampled_of(source_->size())) {
    try {
      seen.push_back(parse_image_extents(source_->bytes(index), source_->name(index)));
      readable.push_back(index);
    } catch (const Error& error) {
      problem = error;
    }
  }
  const auto none_readable = [&] {
    return Error(ErrorCode::format, fmt::format("none of the images can be read: {}", problem->what()), place,
                 "Give a folder of PNG, JPEG or WebP files");
  };
  if (seen.empty()) throw none_readable();
  const auto [height, width] = example_size(seen, options.image_size);
  const bool grey = std::ranges::all_of(seen, [](const ImageExtents& e) { return e.channels == 1; });
  spec_.input = {grey ? 1 : 3, height, width};

  PixelSums sums(spec_.input[0]);
  bool any = false;
  for (const int64_t index : readable) {
    try {
      const HostArray picture = decode(index);
      sums.add(resample(picture, middle_window(picture.shape[0], picture.shape[1], height, width),
                        spec_.input[0], height, width));
      any = true;
    } catch (const Error& error) {
      problem = error;
    }
  }
  if (!any) throw none_readable();
  spec_.normalization = sums.normalization();
}

HostArray EncodedPictures::decode(int64_t index) const {
  // Twice the size is left for random crops, which enlarge a part.
  const int64_t least = 2 * std::max(spec_.input[1], spec_.input[2]);
  return parse_image(source_->bytes(index), source_->name(index), least);
}

HostArray EncodedPictures::picture(int64_t index, int64_t& label_out) const {
  for (int64_t tried = 0; tried < size(); ++tried) {
    const int64_t here = (index + tried) % size();
    try {
      HostArray result = decode(here);
      label_out = source_->label(here);
      return result;
    } catch (const Error& error) {
      note_broken(here, broken_text(error));
    }
  }
  throw Error(ErrorCode::format, "none of the images can be read", source_->name(index));
}

void EncodedPictures::read(int64_t index, float* image_out, int64_t& label_out) const {
  const HostArray stored = picture(index, label_out);
  normalize(resample(stored, middle_window(stored.shape[0], stored.shape[1], spec_.input[1], spec_.input[2]),
                     spec_.input[0], spec_.input[1], spec_.input[2]),
            spec_.normalization, image_out);
}

std::string broken_text(const Error& error) {
  return error.where().empty() ? error.problem() : fmt::format("{}: {}", error.where(), error.problem());
}

Error too_many_broken(const std::map<int64_t, std::string>& broken, int64_t most) {
  constexpr size_t most_named = 10;
  std::vector<std::string> names;
  for (const auto& [at, problem] : broken)
    if (names.size() < most_named) names.push_back(problem);
  if (broken.size() > most_named) names.push_back(fmt::format("and {} more", broken.size() - most_named));
  return {
      ErrorCode::format,
      fmt::format("{} images cannot be read, and {} are allowed: {}", broken.size(), most, join(names, "; ")),
      {},
      "Replace or remove them ('athanor data DIR --whole' lists them all), or allow more with --max-broken"};
}

void EncodedPictures::note_broken(int64_t index, const std::string& why) const {
  const std::lock_guard lock(mutex_);
  broken_.emplace(index, why);
  if (static_cast<int64_t>(broken_.size()) > most_broken_) throw too_many_broken(broken_, most_broken_);
}

ImageExtents EncodedPictures::extents(int64_t index, bool whole) const {
  const std::vector<std::byte> bytes = source_->bytes(index);
  const std::string name = source_->name(index);
  if (whole) (void)parse_image(bytes, name);
  return parse_image_extents(bytes, name);
}

std::vector<std::string> EncodedPictures::broken() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (const auto& [index, why] : broken_) result.push_back(why);
  return result;
}

}  // namespace athanor
