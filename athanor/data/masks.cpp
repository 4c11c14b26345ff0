#include "athanor/data/masks.h"

#include <fmt/format.h>

#include <utility>

#include "athanor/base/error.h"
#include "athanor/data/encoded_pictures.h"
#include "athanor/data/fit_image.h"
#include "athanor/formats/image.h"

namespace athanor {

Picture resample_mask(const HostArray& mask, const Window& window, int64_t height, int64_t width) {
  Picture result(1, height, width);
  const auto pixels = mask.as<uint8_t>();
  for (int64_t y = 0; y < height; ++y) {
    const int64_t row = window.top + (2 * y + 1) * window.height / (2 * height);
    for (int64_t x = 0; x < width; ++x) {
      const int64_t column = window.left + (2 * x + 1) * window.width / (2 * width);
      const uint8_t pixel = pixels[static_cast<size_t>(row * mask.shape[1] + column)];
      result.at(0, y, x) = pixel == ignored_pixel ? 0.0F : static_cast<float>(pixel) + 1;
    }
  }
  return result;
}

void labels_of_mask(const Picture& mask, int64_t* out) {
  for (const float pixel : mask.pixels) *out++ = pixel == 0 ? -100 : static_cast<int64_t>(pixel) - 1;
}

MaskedPictures::MaskedPictures(std::vector<MaskedFile> files, ExampleSpec spec, int64_t most_broken)
    : files_(std::move(files)), spec_(std::move(spec)), most_broken_(most_broken) {}

PictureAndMask MaskedPictures::decode(int64_t index) const {
  const MaskedFile& file = files_[static_cast<size_t>(index)];
  PictureAndMask pair{read_image(file.picture), read_mask(file.mask)};
  if (pair.mask.shape[0] != pair.picture.shape[0] || pair.mask.shape[1] != pair.picture.shape[1])
    throw Error(ErrorCode::shape,
                fmt::format("the mask has {} x {} pixels, its image {} x {}", pair.mask.shape[1],
                            pair.mask.shape[0], pair.picture.shape[1], pair.picture.shape[0]),
                file.mask.string(), "Make them of one size");
  for (const uint8_t pixel : pair.mask.as<uint8_t>())
    if (pixel >= spec_.classes && pixel != ignored_pixel)
      throw Error(ErrorCode::value,
                  fmt::format("the mask has class {}, and there are {} classes", pixel, spec_.classes),
                  file.mask.string(), "Number the classes from 0 on, and what does not count 255");
  return pair;
}

PictureAndMask MaskedPictures::picture_and_mask(int64_t index) const {
  for (int64_t tried = 0; tried < size(); ++tried) {
    const int64_t here = (index + tried) % size();
    try {
      return decode(here);
    } catch (const Error& error) {
      note_broken(here, broken_text(error));
    }
  }
  throw Error(ErrorCode::format, "none of the images can be read",
              files_[static_cast<size_t>(index)].picture.string());
}

HostArray MaskedPictures::picture(int64_t index, int64_t& label_out) const {
  label_out = 0;
  return picture_and_mask(index).picture;
}

void MaskedPictures::read(int64_t index, float* image_out, int64_t& label_out) const {
  const HostArray stored = picture(index, label_out);
  normalize(resample(stored, middle_window(stored.shape[0], stored.shape[1], spec_.input[1], spec_.input[2]),
                     spec_.input[0], spec_.input[1], spec_.input[2]),
            spec_.normalization, image_out);
}

void MaskedPictures::note_broken(int64_t index, const std::string& why) const {
  const std::lock_guard lock(mutex_);
  broken_.emplace(index, why);
  if (static_cast<int64_t>(broken_.size()) > most_broken_) throw too_many_broken(broken_, most_broken_);
}

std::vector<std::string> MaskedPictures::broken() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (const auto& [index, why] : broken_) result.push_back(why);
  return result;
}

}  // namespace athanor
