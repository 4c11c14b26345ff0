// The beginning of a dataset.
#pragma once
#include <algorithm>
#include <memory>
#include <utility>

#include "athanor/data/dataset.h"

namespace athanor {

/// The first `count` examples of another dataset, in its order, or all if it has fewer.
class FirstExamples final : public Dataset {
 public:
  FirstExamples(std::shared_ptr<const Dataset> whole, int64_t count)
      : whole_(std::move(whole)), count_(std::min(count, whole_->size())) {}

  int64_t size() const override { return count_; }
  const ExampleSpec& spec() const override { return whole_->spec(); }
  void read(int64_t index, float* image_out, int64_t& label_out) const override {
    whole_->read(index, image_out, label_out);
  }
  HostArray picture(int64_t index, int64_t& label_out) const override {
    return whole_->picture(index, label_out);
  }
  PictureAndMask picture_and_mask(int64_t index) const override { return whole_->picture_and_mask(index); }
  void numbers(int64_t index, float* out) const override { whole_->numbers(index, out); }
  int64_t label(int64_t index) const override { return whole_->label(index); }
  std::vector<std::string> broken() const override { return whole_->broken(); }

 private:
  std::shared_ptr<const Dataset> whole_;
  int64_t count_;
};

/// `whole` if `count` is 0, otherwise its first examples.
inline std::shared_ptr<const Dataset> first_examples(std::shared_ptr<const Dataset> whole, int64_t count) {
  if (count == 0) return whole;
  return std::make_shared<const FirstExamples>(std::move(whole), count);
}

}  // namespace athanor
