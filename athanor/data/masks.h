// Images with a class for each pixel.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/data/data_options.h"
#include "athanor/data/dataset.h"
#include "athanor/data/picture.h"

namespace athanor {

/// The value of ignored pixels in masks.
inline constexpr uint8_t ignored_pixel = 255;

/// A part of a mask u8 [height, width, 1] scaled to `height` x `width`, each pixel the nearest: a plane of
/// class + 1, and 0 for ignored pixels, including those outside after a crop.
Picture resample_mask(const HostArray& mask, const Window& window, int64_t height, int64_t width);
/// Writes the classes of such a plane, -100 for ignored pixels.
void labels_of_mask(const Picture& mask, int64_t* out);

/// A folder's images and masks of the same name: images/a.jpg and masks/a.png.
struct MaskedFile {
  std::filesystem::path picture, mask;
};

/// Decodes images and masks when they are read. A pair that cannot be read, or whose image and mask differ in
/// size, is skipped as in EncodedPictures.
class MaskedPictures final : public Dataset {
 public:
  MaskedPictures(std::vector<MaskedFile> files, ExampleSpec spec, int64_t most_broken);

  int64_t size() const override { return std::ssize(files_); }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* image_out, int64_t& label_out) const override;
  HostArray picture(int64_t index, int64_t& label_out) const override;
  PictureAndMask picture_and_mask(int64_t index) const override;
  int64_t label(int64_t /*index*/) const override { return 0; }
  std::vector<std::string> broken() const override;

 private:
  PictureAndMask decode(int64_t index) const;
  void note_broken(int64_t index, const std::string& why) const;

  std::vector<MaskedFile> files_;
  ExampleSpec spec_;
  int64_t most_broken_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::string> broken_;
};

}  // namespace athanor
