// Datasets of PNG, JPEG and WebP files, wherever these are.
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

/// Where the files are. Read from several threads at once.
class PictureSource {
 public:
  virtual ~PictureSource() = default;
  virtual int64_t size() const = 0;
  /// For errors and lists: a path.
  virtual std::string name(int64_t index) const = 0;
  virtual int64_t label(int64_t index) const = 0;
  virtual std::vector<std::byte> bytes(int64_t index) const = 0;
};

/// The Error(format) that names examples that cannot be read, where more are than so many.
Error too_many_broken(const std::map<int64_t, std::string>& broken, int64_t most);

/// Decodes pictures when they are read, cuts them to their middle and scales them to one size.
///
/// A picture that cannot be read is passed over: the next one that can takes its place, so that the same
/// examples come whatever the number of threads. More than the options allow are an Error(format) that names
/// them.
class EncodedPictures final : public Dataset {
 public:
  /// Size, channels and normalisation, unless the options say them, are those of up to 256 pictures, evenly
  /// spread. `place` is the dataset's for errors. Throws Error(format) when none of these can be read.
  EncodedPictures(std::unique_ptr<const PictureSource> source, std::vector<std::string> class_names,
                  int64_t classes, const DataOptions& options, const std::string& place);

  int64_t size() const override { return source_->size(); }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* image_out, int64_t& label_out) const override;
  HostArray picture(int64_t index, int64_t& label_out) const override;
  int64_t label(int64_t index) const override { return source_->label(index); }
  std::vector<std::string> broken() const override;

  /// Of a picture as it is stored, by its header alone, or with `whole` after decoding all of it. Throws the
  /// Error of what is broken.
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
