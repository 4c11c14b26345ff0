// Datasets of PNG, JPEG and WebP files, in folders or archives.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/data/data_options.h"
#include "athanor/data/dataset.h"
#include "athanor/data/picture.h"
#include "athanor/formats/image.h"

namespace athanor {

/// The image files of a dataset. Read from several threads at once.
class PictureSource {
 public:
  virtual ~PictureSource() = default;
  virtual int64_t size() const = 0;
  /// For errors and lists: a path.
  virtual std::string name(int64_t index) const = 0;
  virtual int64_t label(int64_t index) const = 0;
  virtual std::vector<std::byte> bytes(int64_t index) const = 0;
};

/// Where the unreadable example is and what is wrong, without a hint, which would be the same for many.
std::string broken_text(const Error& error);

/// The Error(format) that names the unreadable examples if there are more than allowed.
Error too_many_broken(const std::map<int64_t, std::string>& broken, int64_t most);

/// Decodes images when they are read, crops them to their centre and scales them to one size.
///
/// An unreadable image is skipped, and the next readable one takes its place, so that the examples do not
/// depend on the number of threads. More of them than the options allow are an Error(format) that names them.
class EncodedPictures final : public Dataset {
 public:
  /// Unless the options set them, size, channels and normalisation come from up to 256 evenly spaced images.
  /// `place` names the dataset in errors. Throws Error(format) when none of these images can be read.
  EncodedPictures(std::unique_ptr<const PictureSource> source, std::vector<std::string> class_names,
                  int64_t classes, const DataOptions& options, const std::string& place);

  int64_t size() const override { return source_->size(); }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* image_out, int64_t& label_out) const override;
  HostArray picture(int64_t index, int64_t& label_out) const override;
  int64_t label(int64_t index) const override { return source_->label(index); }
  std::vector<std::string> broken() const override;

  /// The stored image's size and channels, from its header, or with `whole` after decoding all of it. Throws
  /// an Error if it is broken.
  ImageExtents extents(int64_t index, bool whole) const;

 private:
  void learn_spec(const DataOptions& options, const std::string& place);
  HostArray decode(int64_t index) const;
  void note_broken(int64_t index, const std::string& why) const;

  std::unique_ptr<const PictureSource> source_;
  ExampleSpec spec_;
  int64_t most_broken_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::string> broken_;
};

}  // namespace athanor
